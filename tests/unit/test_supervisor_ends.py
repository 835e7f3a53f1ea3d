"""What a replica does about an end that it has heard of and not yet dealt with, and about a run that is not its own."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.doubles.epochs import nothing_granted
from tests.unit.test_supervisor import Bench, on
from understudy.config.timings import Timings
from understudy.errors import IdentityConflict
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.requests import Action, Request, Result
from understudy.protocol.messages import Ended
from understudy.supervisor.backends import on_one_machine
from understudy.supervisor.inputs import LeadershipGranted
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.supervisor import Supervisor
from understudy.supervisor.watchers import job_changed


def test_a_script_that_has_ended_while_a_replica_was_looked_for_is_not_handed_over_but_recorded(tmp_path: Path) -> None:
    """The next leader would run the whole of it again."""

    async def script(bench: Bench) -> None:
        bench.grant(3)
        await bench.answer(LeadershipGranted)
        supervisor: Any = bench.replica

        async def can_lead(_: str) -> tuple[str | None, str]:
            bench.driver.ended = Ended(0, "", asked=True)
            supervisor._driver_exited(bench.driver, 0)
            return "other", ""

        supervisor._execute.membership.can_lead = can_lead
        job = await supervisor._jobs.ask(Request("h1", Action.HAND_OVER))
        assert await supervisor._deal_with(job_changed(job, "")) == 0
        found = await supervisor._jobs.read()
        assert found is not None
        assert found.status is Status.FINISHED
        assert found.requests.answer is not None
        assert found.requests.answer.result == Result.REFUSED

    on(tmp_path, script)


def test_a_replica_of_another_run_than_one_that_is_draining_ends_before_it_takes_the_lock(tmp_path: Path) -> None:
    async def nothing_is_acquired() -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    async def run() -> None:
        (tmp_path / "job.py").write_text("")
        settings = RunSettings(tmp_path / "job.py", (), (), "t", "t", tmp_path, Timings(), run_id="B")
        log = Log(stream=io.StringIO())
        services, host = on_one_machine(settings, log)
        jobs = JobStore(services.documents, settings.names.job_document, "t", "job.py")
        job = await jobs.begin_attempt(1, "a", nothing_granted, Generation(), run="A")
        await jobs.ask(Request("d1", Action.DRAIN))
        await jobs.drain(job.token, "d1", ["file:/checkpoint"])
        replica: Any = Supervisor(settings, services, host, Path("fence.jar"), log)
        replica._elector.run = nothing_is_acquired
        with pytest.raises(IdentityConflict, match="run A of this job is DRAINING"):
            async with asyncio.timeout(5):
                await replica.run()

    asyncio.run(run())
