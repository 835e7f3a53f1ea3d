"""The plans of tests of FLIP-144 and FLIP-194 by name, on whole replicas. What needs a cluster is in ``e2e``: the deletion of the Deployment
retains HA data (``test_bundle``), and a canceled job's pods are idle (``test_stops``).
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.plan import Kind, Plan
from tests.simulation.test_results import finished, results, world
from tests.simulation.world import World
from tests.simulation.written import leading, until
from understudy.errors import UnderstudyError
from understudy.ha.job import Status
from understudy.ha.requests import Action, Request

ROOT = Path(__file__).parents[2]


def test_flip_194_a_dirty_result_is_found_by_a_new_leader_which_starts_no_driver() -> None:
    async def script(one: World) -> None:
        assert one.blobs is not None
        pod = await finished_and_killed_before_its_commit(one)
        assert set(results(one)) == {"run-1/result_DIRTY.json"}
        one.blobs.fault = lambda _: ""
        one.start(1)
        again = one.pods[-1]
        await until(one, lambda: again.exit_code is not None)
        assert (again.exit_code, again.drivers) == (0, [])
        assert set(results(one)) == {"run-1/result.json"}
        assert pod is not again
        assert not one.holds.broken

    world(runs=True).run(script)


async def finished_and_killed_before_its_commit(one: World) -> object:
    """The dirty result is there, and nothing after it is answered."""
    pod, _ = await leading(one)
    assert one.blobs is not None
    stored = one.blobs.stored
    one.blobs.fault = lambda _: "lost" if any(name.endswith("_DIRTY.json") for name in stored) else ""
    await until(one, lambda: any(name.endswith("_DIRTY.json") for name in stored))
    pod.die()
    return pod


def test_flip_194_a_finished_job_is_not_run_again_after_a_failover() -> None:
    async def script(one: World) -> None:
        (await finished(one)).die()
        committed = one.checkpoint.last_token
        for _ in range(3):
            one.start(1)
            await until(one, lambda: one.pods[-1].exit_code is not None)
            assert (one.pods[-1].exit_code, one.pods[-1].drivers) == (0, [])
        assert one.checkpoint.last_token == committed
        assert [each.status for each in results(one).values()] == ["FINISHED"]

    world(runs=True).run(script)


def listed() -> set[str]:
    """The entries of the job's document that the page says stay."""
    page = (ROOT / "docs/operations.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| the job's document, with the entries"))
    return set(re.findall(r"`([\w.]+)`", row.split("|")[1]))


def test_flip_144_cancel_cleans_up_and_leaves_what_the_page_on_operations_lists() -> None:
    async def script(one: World) -> None:
        pod, _ = await leading(one)
        assert one.scratch is not None
        one.scratch.stored["sim/a-replica-that-is-gone/q0.0/state"] = b""
        one.scratch.stored["other/a-replica/q0.0/state"] = b""
        await one.jobs.ask(Request("r", Action.CANCEL, "ann", one.loop.now, 60.0))
        await until(one, lambda: pod.exit_code is not None)
        job = one.holds.job
        assert job is not None
        assert job.status is Status.CANCELED
        assert [each.status for each in results(one).values()] == ["CANCELED"]
        assert set(one.scratch.stored) == {"other/a-replica/q0.0/state"}
        document = one.api.documents.document(one.settings(1).names.job_document)
        assert document is not None
        assert set(document.entries) <= listed()
        assert not one.holds.broken

    made = World(Plan(1, Kind.GRACEFUL, 0, multi=False, finite=True, ages=False, runs=True))
    made.replicas, made.blobs_fail = 1, 0.0
    made.run(script)


def test_flip_144_suspension_and_death_of_every_replica_retain_everything() -> None:
    async def script(one: World) -> None:
        pod, _ = await leading(one)
        try:
            await one.jobs.ask(Request("r", Action.SUSPEND, "ann", one.loop.now, 60.0))
        except UnderstudyError as error:
            raise AssertionError(error) from error
        await until(one, lambda: one.holds.job is not None and one.holds.job.status is Status.SUSPENDED)
        before = one.api.documents.document(one.settings(1).names.job_document)
        pod.die()
        one.start(1)
        await until(one, lambda: any(event.event == "suspended" for each in one.pods for event in each.said))
        after = one.api.documents.document(one.settings(1).names.job_document)
        assert before is not None
        assert after is not None
        assert before.entries == after.entries
        assert results(one) == {}

    world(runs=True).run(script)
