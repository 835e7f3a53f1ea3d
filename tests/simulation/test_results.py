"""Results in HA storage: kept by any replica, brought back where the documents are lost, and before the next run begins."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.simulation.plan import Kind, Plan
from tests.simulation.pod import Pod
from tests.simulation.world import World
from tests.simulation.written import leading, until
from understudy.ha.job import Job, Status
from understudy.ha.results import JobResult
from understudy.protocol.token import HIGHEST, Token


def world(*, runs: bool) -> World:
    """Its job ends after a few batches; HA storage answers unless ``away`` says otherwise."""
    made = World(Plan(1, Kind.GRACEFUL, 0, multi=False, finite=True, ages=False, runs=runs))
    made.replicas, made.blobs_fail = 1, 0.0
    return made


def results(one: World) -> dict[str, JobResult]:
    assert one.blobs is not None
    return {
        name.partition("job-results/sim/job/")[2]: JobResult.decode(data, name)
        for name, data in one.blobs.stored.items()
    }


async def finished(one: World, *, away: bool = False) -> Pod:
    """``away``: HA storage is, from when a replica leads."""
    pod, _ = await leading(one)
    one.blobs_fail = float(away)
    await until(one, lambda: one.holds.job is not None and one.holds.job.status is Status.FINISHED)
    return pod


def test_a_run_that_has_finished_has_one_clean_result() -> None:
    async def script(one: World) -> None:
        pod = await finished(one)
        await until(one, lambda: pod.exit_code is not None)
        assert pod.exit_code == 0
        ((name, result),) = results(one).items()
        assert (name, result.run, result.status) == ("run-1/result.json", "run-1", "FINISHED")
        assert one.holds.job is not None
        assert result.token == int(one.holds.job.token)
        assert not one.holds.broken

    world(runs=True).run(script)


def test_a_storage_that_is_away_keeps_its_replica_until_it_is_back_or_told_to_stop() -> None:
    async def script(one: World) -> None:
        pod = await finished(one, away=True)
        await asyncio.sleep(100.0)
        assert pod.exit_code is None
        assert [event.event for event in pod.said].count("result-not-recorded") == 1
        pod.sigterm()
        await until(one, lambda: pod.exit_code is not None)
        one.blobs_fail = 0.0
        one.start(1)
        await until(one, lambda: one.pods[-1].exit_code is not None)
        assert set(results(one)) == {"run-1/result.json"}
        assert not one.pods[-1].drivers

    world(runs=True).run(script)


def test_the_next_run_does_not_begin_before_the_result_of_the_last_one_is_kept() -> None:
    async def script(one: World) -> None:
        (await finished(one, away=True)).die()
        assert one.blobs is not None
        one.blobs.fault = lambda verb: "lost" if verb == "create" else ""
        one.start(2)
        pod = one.pods[-1]
        await until(one, lambda: any(event.event == "acquired" for event in pod.said))
        await asyncio.sleep(60.0)
        assert one.holds.job is not None
        assert one.holds.job.runs.run == "run-1"
        one.blobs.fault = lambda _: ""
        await until(one, lambda: pod.leads)
        assert one.holds.job.runs.run == "run-2"
        assert set(results(one)) == {"run-1/result.json"}

    world(runs=True).run(script)


def test_a_job_is_not_begun_while_it_is_unknown_whether_it_has_ended() -> None:
    async def script(one: World) -> None:
        one.blobs_fail = 1.0
        one.start()
        await asyncio.sleep(60.0)
        assert len(one.pods) > 1
        assert {pod.exit_code for pod in one.pods[:-1]} == {8}
        one.blobs_fail = 0.0
        await until(one, lambda: one.pods[-1].leads)

    world(runs=True).run(script)


def test_where_all_documents_are_lost_what_has_finished_stays_so_and_tokens_go_on_above() -> None:
    async def script(one: World) -> None:
        pod = await finished(one)
        await until(one, lambda: pod.exit_code is not None)
        ended = one.holds.job
        assert ended is not None
        one.holds.harmed = True
        for server in (one.api.documents, one.leases, one.claims):
            for name in list(server.stored):
                server.remove(name)
        one.start(1)
        again = one.pods[-1]
        await until(one, lambda: again.exit_code is not None)
        assert again.exit_code == 0
        assert not again.drivers
        assert [event.event for event in again.said].count("recalled") == 1
        found = await one.jobs.read()
        assert found is not None
        assert (found.status, found.token, found.runs.run) == (Status.FINISHED, ended.token, "run-1")

        one.start(2)
        await until(one, lambda: one.pods[-1].leads)
        found = await one.jobs.read()
        assert found is not None
        assert found.token.epoch > ended.token.epoch > Token.from_int(0).epoch
        assert found.runs.run != "run-1"

    world(runs=True).run(script)


def test_a_job_that_was_declared_suspended_before_its_replicas_came_has_finished_all_the_same() -> None:
    """All documents are lost, and the command that declares the state was faster than the first replica."""

    async def script(one: World) -> None:
        pod = await finished(one)
        await until(one, lambda: pod.exit_code is not None)
        one.holds.harmed = True
        for server in (one.api.documents, one.leases, one.claims):
            for name in list(server.stored):
                server.remove(name)
        assert (await one.jobs.begin_suspended()).status is Status.SUSPENDED
        one.start(1)
        await until(one, lambda: one.pods[-1].exit_code is not None)
        assert one.pods[-1].exit_code == 0
        found = await one.jobs.read()
        assert found is not None
        assert found.status is Status.FINISHED

    world(runs=True).run(script)


def test_a_record_that_is_gone_after_another_run_has_begun_stays_an_error() -> None:
    """Nothing tells how that run has ended, or that it has."""

    async def script(one: World) -> None:
        pod = await finished(one)
        await until(one, lambda: pod.exit_code is not None)
        await until(one, lambda: one.pods[-1].leads)
        one.pods[-1].die()
        one.holds.harmed = True
        one.api.documents.remove(one.settings(1).names.job_document)
        one.start(2)
        await until(one, lambda: one.pods[-1].exit_code is not None)
        assert one.pods[-1].exit_code == 4
        one.start(1)
        await until(one, lambda: one.pods[-1].exit_code is not None)
        assert one.pods[-1].exit_code == 0
        assert not one.pods[-1].drivers
        assert await one.jobs.read() is None, "nothing is written over a run that may be under way"

    world(runs=True).run(script)


def test_a_run_that_the_documents_have_forgotten_has_ended_all_the_same() -> None:
    """They remember the last 32."""

    async def script(one: World) -> None:
        pod = await finished(one)
        await until(one, lambda: pod.exit_code is not None)
        await until(one, lambda: one.pods[-1].leads)
        document = one.api.documents.document(one.settings(1).names.job_document)
        assert document is not None
        job = Job.of(document)
        forgetful = replace(job, runs=replace(job.runs, past=()))
        await one.jobs._update(HIGHEST, lambda _: forgetful)
        one.start(1)
        await until(one, lambda: one.pods[-1].exit_code is not None)
        assert one.pods[-1].exit_code == 0
        assert not one.pods[-1].drivers
        assert "run run-1 of job job is FINISHED; another run has begun since" in one.pods[-1].said[-1].sentence

    world(runs=True).run(script)


def test_a_job_without_runs_has_a_result_too() -> None:
    async def script(one: World) -> None:
        pod = await finished(one)
        await until(one, lambda: pod.exit_code is not None)
        ((name, result),) = results(one).items()
        assert (name, result.run) == (f"_{result.first}/result.json", "")

    world(runs=False).run(script)
