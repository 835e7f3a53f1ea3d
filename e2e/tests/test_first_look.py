"""The README's five commands: a cluster, images, ``make up``, ``understudy status --watch``, and a leader killed by hand.

The first two are this run's own; the third is itself where Pulumi's engine is, and deploys stacks/Pulumi.dev.yaml in any case.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from e2e.harness.bundle import MadeStack
from e2e.harness.heartbeat import CLUSTER, Heartbeat, heartbeat
from e2e.harness.kubectl import Cluster, await_value


@pytest.fixture(scope="module")
def look(cluster: Cluster) -> Iterator[Heartbeat]:
    with heartbeat(cluster, by=MadeStack) as made:
        yield made


def test_up_brings_everything_from_the_namespace_to_a_leader(look: Heartbeat) -> None:
    began = time.monotonic()
    look.stack.up(look.given)
    up_after = time.monotonic() - began
    look.status(r"commit +\d", 180)
    print(
        f"deployed after {up_after:.1f} s, a leader's first commits were known after {time.monotonic() - began:.1f} s"
    )

    began = time.monotonic()
    assert look.stack.up(look.given) == 0
    print(f"a second up took {time.monotonic() - began:.1f} s")


def test_status_shows_a_standby_that_has_rehearsed(look: Heartbeat) -> None:
    shown = look.status(r"rounds, \d+ s ago", 180)
    assert "leads" in shown


def test_a_leader_killed_by_hand_has_a_successor(look: Heartbeat) -> None:
    pod = look.leader()
    epoch = re.search(r"epoch +(\d+)", look.status(r"epoch +\d+", 30))
    assert epoch is not None

    look.kill(pod)
    await_value(lambda: look.leader() not in {"", pod} or None, 60, "no replica took over")
    look.status(rf"epoch +{int(epoch.group(1)) + 1}\b", 60)


def test_every_beat_is_written_once(look: Heartbeat) -> None:
    beats = await_value(lambda: found if len(found := look.beats()) > 50 else None, 120, "few beats", interval=2.0)
    assert beats == list(range(len(beats)))


def test_down_keeps_what_holds_data(look: Heartbeat) -> None:
    look.stack.destroy()
    pods = ["pods", "-l", f"understudy.dev/cluster={CLUSTER}"]
    await_value(lambda: not look.cluster.get(look.namespace, *pods)["items"] or None, 90, "pods live on")
    for kind, name in (
        ("configmap", f"{CLUSTER}-{CLUSTER}"),
        ("configmap", f"{CLUSTER}-replicas"),
        ("lease", f"{CLUSTER}-lock"),
    ):
        assert look.cluster.get(look.namespace, kind, name)["metadata"]["labels"]["understudy.dev/cluster"] == CLUSTER


def test_the_next_up_finds_all_of_it_and_the_job_counts_on(look: Heartbeat) -> None:
    claim = ["persistentvolumeclaim", f"{CLUSTER}-objects"]
    before = look.cluster.get(look.namespace, *claim)["metadata"]["uid"]

    look.stack.up(look.given)
    look.status(r"commit +\d", 180)

    assert look.cluster.get(look.namespace, *claim)["metadata"]["uid"] == before
    beats = look.beats()
    assert beats == list(range(len(beats)))


def test_purge_leaves_the_namespace_and_nothing_of_the_job_in_it(look: Heartbeat) -> None:
    look.stack.purge(look.given)
    for kind in ("configmaps", "leases", "secrets", "persistentvolumeclaims", "deployments", "pods"):
        await_value(lambda kind=kind: not names(look, kind) or None, 90, f"{kind} are left")  # type: ignore[misc]
    assert look.cluster.get("default", "namespace", look.namespace)["status"]["phase"] == "Active"


def names(look: Heartbeat, kind: str) -> set[str]:
    found = {each["metadata"]["name"] for each in look.cluster.get(look.namespace, kind)["items"]}
    return found - {"kube-root-ca.crt"}
