"""The bundle's whole life: up, drivers that write, up again, a dead leader, destroy, up again, and in the end a purge."""

from __future__ import annotations

import json
import time
from typing import Any

from e2e.harness.bundle import HA, Bundled, Stack
from e2e.harness.deploy_driver import contains
from e2e.harness.deployment_under_test import PATIENCE
from e2e.harness.flights_deployment import WHOLE, counted

#: Written into what a stack has left behind, under such a name as an adoption takes data away from. Drivers do not touch it.
PLANTER = "kubectl-planted"
PLANTED: dict[str, dict[str, Any]] = {
    "configmaps": {"data": {"planted": "by hand"}},
    "leases": {"metadata": {"annotations": {"e2e.understudy.dev/planted": "by hand"}}},
}

#: Prints the resident memory of the process that runs ``understudy run``, in kB: the first one's child.
RESIDENT = """
import contextlib, pathlib
for each in pathlib.Path("/proc").glob("[0-9]*"):
    with contextlib.suppress(OSError):  # another one, which has ended meanwhile
        status = dict(line.split(":", 1) for line in (each / "status").read_text().splitlines() if ":" in line)
        if b"understudy" in (each / "cmdline").read_bytes() and status["PPid"].strip() == "1":
            print(status["VmRSS"].split()[0])
"""


def test_up_makes_replicas_that_lead_and_rehearse(bundled: Bundled) -> None:
    bundled.goes_on(0)
    bundled.wait_for(bundled.rehearsed, "a rehearsed standby", 300)


def test_up_again_changes_nothing_although_drivers_have_written(bundled: Bundled, stack_under_test: Stack) -> None:
    written = bundled.ha_objects()
    assert all(each.get("data") or each.get("spec") for each in written.values())

    assert stack_under_test.up(bundled.given) == 0
    assert stack_under_test.up(bundled.given, refresh=True) == 0
    remembered = stack_under_test.state()
    for theirs in (bundled.holder(), "token_epoch", bundled.store.secret):
        assert theirs not in remembered, (
            "what drivers wrote, and keys, are not for everybody who reads the stack's state"
        )


def test_a_killed_leader_has_a_successor(bundled: Bundled) -> None:
    bundled.wait_for(bundled.rehearsed, "a rehearsed standby", 300)
    epoch = bundled.epoch()
    assert bundled.kill("container").epoch > epoch


def test_supervisors_stay_small_with_the_bucket_s_client_in_them(bundled: Bundled) -> None:
    """At most 80 MB in a pod, beside the driver."""
    bundled.wait_for(bundled.rehearsed, "a rehearsed standby, so that no container is just starting", 300)
    for pod in bundled.pods():
        command = ("exec", "-n", bundled.namespace, pod["metadata"]["name"], "--", "python3", "-c", RESIDENT)
        kilobytes = int(bundled.cluster.kubectl(*command))
        assert 20_000 < kilobytes < 80_000, f"{pod['metadata']['name']}: {kilobytes} kB"


def test_the_declared_state_is_there_when_up_has_ended(bundled: Bundled, stack_under_test: Stack) -> None:
    bundled.wait_for(bundled.rehearsed, "a rehearsed standby", 300)
    before = bundled.epoch()
    suspended = {**bundled.given, "state": "suspended"}
    assert stack_under_test.up(suspended) > 0
    assert bundled.record()["status"] == "SUSPENDED"
    assert stack_under_test.up(suspended) == 0
    bundled.wait_for(lambda: bundled.healthy() == bundled.replicas, "idle replicas that are ready", PATIENCE)

    since = time.time()
    assert stack_under_test.up({**bundled.given, "state": "running"}) > 0
    assert bundled.record()["status"] == "RUNNING"
    bundled.goes_on(since)
    assert bundled.epoch() > before
    stack_under_test.up(bundled.given)
    assert bundled.get("jobs")["items"] == []


def test_destroy_keeps_the_ha_objects_as_they_are_and_up_adopts_them(bundled: Bundled, stack_under_test: Stack) -> None:
    bundled.wait_for(bundled.rehearsed, "a rehearsed standby", 300)
    epoch = bundled.epoch()

    stack_under_test.destroy()
    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", 90)
    for kind, patch in PLANTED.items():
        for name in HA[kind]:
            how = ["--type=merge", f"--field-manager={PLANTER}", "--patch", json.dumps(patch)]
            bundled.cluster.kubectl("patch", kind, name, "-n", bundled.namespace, *how)
    left = bundled.ha_objects()
    assert all(each.get("data") or each.get("spec") for each in left.values())
    assert not any(each["metadata"].get("ownerReferences") for each in left.values())
    for kind in ("deployments", "roles", "rolebindings", "networkpolicies", "poddisruptionbudgets", "secrets"):
        assert bundled.get(kind)["items"] == [], kind

    stack_under_test.up(bundled.given)
    adopted = bundled.ha_objects()
    assert [each["metadata"]["uid"] for each in adopted.values()] == [each["metadata"]["uid"] for each in left.values()]
    for name, patch in ((f"{kind}/{name}", PLANTED[kind]) for kind, names in HA.items() for name in names):
        assert contains(adopted[name], patch), "what was there before is there after"
    managers = {entry["manager"] for each in adopted.values() for entry in each["metadata"]["managedFields"]}
    assert managers - {PLANTER} <= {"understudy"}, "each adoption leaves another owner behind"

    since = max(commit.seen for commit in bundled.watch.commits) if bundled.watch.commits else 0.0
    bundled.goes_on(since)
    assert bundled.epoch() > epoch


def test_every_row_is_there_once(bundled: Bundled) -> None:
    assert counted(bundled.finish(400)) == WHOLE


def test_a_job_that_was_drained_has_its_result_in_the_bucket(bundled: Bundled) -> None:
    assert "FINISHED" in bundled.understudy("drain")
    assert json.loads(bundled.understudy("result", "--json"))["status"] == "FINISHED"
    with bundled.store.open() as bucket:

        def results() -> list[str]:
            return [key for key in bucket.names(f"{bundled.namespace}/ha/job-results/") if key.endswith("/result.json")]

        bundled.wait_for(lambda: bool(results()), "a result", PATIENCE)
        (key,) = results()
        body = json.loads(bucket.get(key))
    assert (body["job"], body["status"]) == (bundled.given["clusterId"], "FINISHED")


def test_purge_leaves_nothing(bundled: Bundled, stack_under_test: Stack) -> None:
    stack_under_test.purge(bundled.given)
    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", PATIENCE)
    assert bundled.left() == set()
