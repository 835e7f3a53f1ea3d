"""Takeover times in a cluster beside what a user has today, measured in one run (``make bench-k8s``).

``understudy``  two replicas in a Deployment, checkpoints on ``s3a://``, profile ``fast``
``restart``     the same script under spark-submit in a Deployment of one pod; a fresh pod for every trial, so no crash loop's
                back-off is counted against it

From the signal to the first new ``commits/N`` with input rows in the bucket, looked at from outside. The variants take turns.
``sigterm_elsewhere``: the pod that replaces the deleted one starts only after that, as if it had processors of its own.
What replicas in the profile ``default`` send the API server is counted first, while nothing happens.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from e2e.harness import images, manifests, objects
from e2e.harness.deployment_under_test import Failed
from e2e.harness.flights_deployment import BUSY, CALM, FlightsDeployment
from e2e.harness.kubectl import Cluster, attach, await_value
from e2e.harness.kubectl import Failed as Refused
from e2e.harness.replica_logs import said
from testkit import reports
from testkit.phases import in_a_line, phases_of
from testkit.takeovers import Times, Took, asked, concluded, shares

KINDS = {
    "understudy": ("sigterm", "sigterm_elsewhere", "jvm", "container", "cut"),
    "restart": ("sigterm", "container"),
}
VARIANTS = ("understudy", "restart")

#: Rounds a standby has rehearsed before its leader is killed: all of its warm-up, some four minutes, as in most takeovers there are.
_WARM = 32

_SENT = re.compile(r'^understudy_api_requests_total{what="(\w+)"} (\S+)', re.MULTILINE)


def trial(flights: FlightsDeployment, kind: str) -> Took:
    """Until another replica commits; all replicas are ready before."""
    flights.feed.per_second = BUSY
    time.sleep(2.0)
    try:
        return _plain(flights, kind) if flights.plain else _replicated(flights, kind)
    finally:
        flights.feed.per_second = CALM


def _replicated(flights: FlightsDeployment, kind: str) -> Took:
    pod, holder, began = flights.leader(), flights.holder(), time.time()
    log = None
    with ExitStack() as faults:
        if kind == "sigterm_elsewhere":
            nodes = [node["metadata"]["name"] for node in flights.get("nodes")["items"]]
            faults.enter_context(flights.cluster.cordoned(*nodes))
        match kind:
            case "sigterm" | "sigterm_elsewhere":
                log = faults.enter_context(flights.following(pod))
                at = flights.delete(pod)
            case "cut":
                at = faults.enter_context(flights.cluster.failing("cut", flights.node(pod)))
            case _:
                at = flights.send_signal(pod, kind)
        takeover = flights.measure(kind, at, holder)
    if kind == "container":
        _forget(flights, pod)
    phases = phases_of(said(flights, began, log), at, at + takeover.seconds)
    _say(f"{'understudy':>11} {kind:<10}{takeover.seconds:7.2f} s   {in_a_line(phases)}")
    return Took(takeover.seconds, phases)


def _plain(flights: FlightsDeployment, kind: str) -> Took:
    (pod,) = flights.pods()
    if kind == "container":
        at = flights.send_signal(pod, kind)
        _forget(flights, pod)
    else:
        at = flights.delete(pod)

    # Nothing fences this one: a pod told to stop commits on until its process ends, and that is no recovery.
    def ended() -> float | None:
        left = {each["metadata"]["uid"] for each in flights.pods()}
        return None if pod["metadata"]["uid"] in left else time.time()

    gone = await_value(ended, 120, "the old pod is still there")
    commit = flights.watch.first(lambda each: each.input and each.seen > gone, 180)
    if commit is None:
        raise Failed(f"{kind}: no replica committed within 180 s")
    _say(f"{'restart':>11} {kind:<10}{commit.seen - at:7.2f} s   old pod gone {gone - at:.2f}")
    return Took(commit.seen - at)


def _forget(flights: FlightsDeployment, pod: Any) -> None:
    """A pod whose container was killed makes place for a fresh one, before its restarts are counted against it."""
    with suppress(Refused):
        flights.delete(pod, force=True)


def ready(flights: FlightsDeployment) -> None:
    if flights.watch.first(lambda commit: commit.input, 300) is None:
        raise Failed(f"no replica committed within 300 s; see {flights.logs}")
    if not flights.plain:
        flights.wait_for(lambda: flights.rehearsed(_WARM), "a rehearsed standby", 600)
    last = time.time()
    if flights.watch.first(lambda commit: commit.input and commit.seen > last, 60) is None:
        raise Failed("no replica commits")
    time.sleep(random.uniform(0.0, 1.0))


def costs(flights: FlightsDeployment, lasting: float) -> dict[str, float]:
    """What all replicas send the API server per second while nothing happens: requests, writes and bytes."""

    def sent() -> Counter[str]:
        total: Counter[str] = Counter()
        for pod in flights.pods():
            for what, count in _SENT.findall(flights.metrics(pod)):
                total[what] += round(float(count))
        return total

    before, began = sent(), time.monotonic()
    time.sleep(lasting)
    seconds = time.monotonic() - began
    return {what: round((count - before[what]) / seconds, 3) for what, count in sent().items()}


@contextmanager
def playing(flights: FlightsDeployment) -> Iterator[None]:
    """It runs in a namespace of its own, which goes with everything in it."""
    flights.cluster.apply("default", manifests.namespace(flights.namespace))
    try:
        with flights.running():
            yield
    finally:
        with suppress(Refused):
            flights.cluster.kubectl("delete", "namespace", flights.namespace, "--wait=true", timeout=180)


def turn(flights: FlightsDeployment, kinds: Sequence[str], times: Times) -> None:
    variant = "restart" if flights.plain else "understudy"
    with playing(flights):
        for kind in kinds:
            if kind == "cut":
                flights.apart()
            ready(flights)
            times[kind][variant].append(trial(flights, kind))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=8, help="takeovers per kind and variant")
    parser.add_argument(
        "--quiet",
        type=float,
        default=300.0,
        help="seconds in which requests are counted, a few minutes for what is noted every other; 0: none are",
    )
    options, wanted = asked(parser, KINDS["understudy"])
    cluster = attach(os.environ)
    if not cluster.local:
        wanted -= {"cut", "sigterm_elsewhere"}  # what they do to nodes concerns others, too
    out = reports.made(options.out)
    times: Times = defaultdict(lambda: defaultdict(list))
    sent: dict[str, float] = {}
    failed = _run(cluster, out / time.strftime("k8s-%H%M%S"), options, wanted, times, sent)
    return concluded(out / "failover_k8s.json", times, VARIANTS, failed, sent_per_second=sent)


def _run(
    cluster: Cluster,
    directory: Path,
    options: argparse.Namespace,
    wanted: set[str],
    times: Times,
    sent: dict[str, float],
) -> int:
    failed = 0

    def flights(name: str, **differs: Any) -> FlightsDeployment:
        return FlightsDeployment(cluster, store, images.FLIGHTS, directory / name, name, days=1_000_000, **differs)

    cluster.load(images.saved(images.FLIGHTS))
    cluster.apply("default", manifests.namespace("bench-objects"))
    store = objects.install(cluster, "bench-objects")
    try:
        if options.quiet:
            counted = flights("bench-quiet", profile="default")
            with playing(counted):
                ready(counted)
                sent |= costs(counted, options.quiet)
                _say(f"sent per second: {sent}")
        for number, share in enumerate(shares(options.n)):
            for variant in VARIANTS:
                kinds = [kind for kind in KINDS[variant] if kind in wanted] * share
                random.shuffle(kinds)
                if not kinds:
                    continue
                plain = variant == "restart"
                try:
                    turn(flights(f"bench-{variant}-{number}", replicas=1 if plain else 2, plain=plain), kinds, times)
                except (Failed, AssertionError, Refused) as problem:
                    failed += 1
                    _say(f"FAILED: {problem}")
    finally:
        cluster.kubectl("delete", "namespace", "bench-objects", "--wait=true", timeout=180)
    return failed


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
