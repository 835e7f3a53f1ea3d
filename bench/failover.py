"""Takeover times beside two baselines, measured in one run (``make bench``).

``understudy``    replicas whose standbys have rehearsed on the live checkpoint, all of them
``open_session``  replicas whose standbys have an open session and rehearse nothing
``restart``       the script alone in a shell loop: what a Deployment of one pod does at its best, without image or scheduler

Beside them, how long a job takes to go on that was stopped on purpose: ``resume_warm`` (``understudy suspend --warm``), ``resume``
(no driver is left), which is a start of the script for the baseline; and ``suspend`` itself.

The same script over the same flights, kills at uniformly random moments, measured from the signal to the first new
``commits/N`` with input rows, by an observer that imports nothing of understudy. Variants take turns, so that a noisy hour of
the machine falls on all of them. ``batch_s`` in the report: how long batches took, of those that Spark still keeps. A successor's
first one is not expected to be shorter.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.local_flights import ROUNDS, Failed, LocalFlights
from bench.variants import OPEN_SESSION, RESTART, UNDERSTUDY, Variant, add_options, chosen
from testkit import kills, observer, procs, reports
from testkit.feeds import load
from testkit.phases import Takeover, in_a_line
from testkit.takeovers import Times, Took, asked, concluded, shares, spread

#: A job that is stopped on purpose, and goes on.
STOPS = ("resume_warm", "resume")

#: What is tried on whom. A shell loop has no supervisor to lose, and a frozen script is not restarted.
KINDS = {
    "understudy": ("sigterm", "jvm", "tree", "frozen", *STOPS),
    "open_session": ("jvm", "tree"),
    "restart": ("sigterm", "jvm", "tree", "resume"),
}


VARIANTS = (UNDERSTUDY, OPEN_SESSION, RESTART)

#: Days per second while a replica leads, and around a kill, when rows must be waiting for the next leader.
CALM, BUSY = 0.3, 3.0


def trial(flights: LocalFlights, kind: str, choose: random.Random) -> Takeover:
    """One takeover of a deployment in which every standby is ready."""
    flights.feed.per_second = BUSY
    try:
        if kind == "sigterm" and not flights.variant.fenced:
            return flights.kill("script", choose)
        if kind != "frozen":
            return flights.kill(kind, choose)
        takeover, victim, _ = flights.freeze()
        kills.thaw(victim)
        flights.wait_for(lambda: not procs.lives(victim.jvm), 20, "the thawed JVM lives on")
        return takeover
    finally:
        flights.feed.per_second = CALM


def stopped(flights: LocalFlights, kind: str, times: Times) -> Takeover:
    """One suspension, whose time is noted, and the start after it."""
    if not flights.variant.fenced:
        return flights.stop_and_start()
    took, takeover = flights.suspend_and_resume(warm=kind == "resume_warm")
    times["suspend"][flights.variant.name].append(Took(took))
    return takeover


def ready(flights: LocalFlights, rounds: int) -> None:
    """A replica leads, and all standbys are ready: one that starts takes the processors from the other's takeover."""
    first = flights.watch.first(lambda commit: commit.input, 180)
    if first is None:
        raise Failed(f"no replica committed within 180 s; see {flights.logs}")
    if flights.variant.replicas > 1:
        flights.wait_for(lambda: flights.all_ready(rounds), 900, "standbys are not ready")
    time.sleep(1.0)


def turn(
    variant: Variant, kinds: Sequence[str], rounds: int, directory: Path, choose: random.Random, times: Times
) -> list[float]:
    """The takeovers of one turn, in random order, in its own deployment; what batches took. Raises ``Failed`` and ``NotThere``."""
    if not kinds:
        return []
    order = list(kinds)
    choose.shuffle(order)
    flights = LocalFlights(variant, directory, load(), limit=1_000_000)
    flights.feed.per_second = CALM
    try:
        flights.start()
        for kind in order:
            ready(flights, rounds)
            takeover = stopped(flights, kind, times) if kind in STOPS else trial(flights, kind, choose)
            times[kind][variant.name].append(Took(takeover.total_s, takeover.phases))
            phases = in_a_line(takeover.phases)
            sys.stdout.write(f"{variant.name:>13} {kind:<11}{takeover.total_s:7.2f} s   {phases}\n")
            sys.stdout.flush()
    finally:
        flights.stop()
    # Spark, which removes old entries, has stopped
    return [took for query in flights.job.queries for took in observer.batch_seconds(flights.checkpoints / query)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-n", type=int, default=8, help="takeovers per kind and variant; 100 for figures worth publishing"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of order and moments")
    parser.add_argument("--replicas", type=int, default=UNDERSTUDY.replicas, help="of the variants that have standbys")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="that standbys have rehearsed before a kill")
    add_options(parser, VARIANTS)
    options, wanted = asked(parser, KINDS["understudy"])
    if options.replicas < 2:
        parser.error(f"argument --replicas: {options.replicas} are no leader and a standby; give 2 or more")
    variants = [
        replace(each, replicas=options.replicas) if each.replicas > 1 else each
        for each in chosen(parser, options, VARIANTS)
    ]
    out = reports.made(options.out)
    choose = random.Random(options.seed)
    times: Times = defaultdict(lambda: defaultdict(list))
    batches: dict[str, list[float]] = defaultdict(list)
    failed = 0
    for share in shares(options.n):
        for variant in variants:
            kinds = [kind for kind in KINDS.get(variant.name, KINDS["understudy"]) if kind in wanted] * share
            try:
                batches[variant.name] += turn(variant, kinds, options.rounds, out / "run" / variant.name, choose, times)
            except (Failed, kills.NotThere) as problem:
                failed += 1
                sys.stdout.write(f"FAILED: {problem}\n")
    settings: dict[str, object] = {name: getattr(options, name) for name in ("seed", "replicas", "rounds")}
    settings["batch_s"] = {name: spread(found) for name, found in batches.items() if len(found) > 1}
    return concluded(out / "failover.json", times, [each.name for each in variants], failed, **settings)


if __name__ == "__main__":
    sys.exit(main())
