"""What the simulator has found, each as a history of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.simulation.checkpoint import COMMITS
from tests.simulation.pod import Pod
from tests.simulation.world import World
from tests.simulation.written import a_lock_is_restored_whose_holder_is_dead, leading, until, world
from understudy.documents import record
from understudy.documents.model import LeaderRecord
from understudy.documents.record import Record
from understudy.election.commands import Grant
from understudy.election.records import GRANT, GrantEntry
from understudy.errors import DocumentTooLarge
from understudy.ha.job import Status
from understudy.ha.requests import Action, Request
from understudy.protocol.gate import State
from understudy.protocol.token import NONE
from understudy.supervisor.commands import BeginAttempt, Purpose, RecordEnd, RecordFailure, StartStandby
from understudy.supervisor.driver_end import Failed
from understudy.supervisor.inputs import CommandDue, DriverExited, Event, RestartDue
from understudy.supervisor.watchers import _LOOK_AT_JOB, job_changed


async def acquired(one: World) -> Pod:
    """The one replica has the lock, and its documents do not answer any more: the job is not claimed."""
    one.start()
    pod = one.pods[0]
    await until(one, lambda: any(event.event == "acquired" for event in pod.said))
    pod.lines[0].cut = True
    return pod


def test_what_was_told_of_an_earlier_driver_does_not_touch_the_one_that_leads() -> None:
    """Told while no document could be written, and answered after the lead was lost and won again: a second driver started."""

    async def script(one: World) -> None:
        pod, driver = await leading(one)
        assert pod.replica is not None
        earlier: tuple[Event, ...] = (
            DriverExited(0, Failed("of something")),
            CommandDue(RecordFailure(NONE, "of something")),
            CommandDue(RecordEnd(NONE, Status.FINISHED, "the script ended")),
            CommandDue(BeginAttempt(Grant(1, "me", "r", 0.0), 1, NONE, Purpose.RESTART)),
            RestartDue(NONE),
        )
        for late in earlier:
            pod.replica._inbox.put_nowait(late)
        await asyncio.sleep(30.0)
        assert pod.drivers == [driver]
        assert driver.open
        assert one.holds.job is not None
        assert one.holds.job.status is Status.RUNNING
        assert not one.holds.broken

    world().run(script)


def test_who_is_told_to_stop_in_the_pause_before_a_restart_stops() -> None:
    """It slept through the pause, up to a minute, and held the lock until it was killed."""

    async def script(one: World) -> None:
        one.restart_delay = 60.0
        pod, driver = await leading(one)
        driver.die(1)
        await asyncio.sleep(1.0)
        assert pod.drivers == [driver], "it waits"
        pod.sigterm()
        await asyncio.sleep(1.0)
        assert pod.gone
        assert pod.exit_code == 0

    world().run(script)


def test_a_standby_that_was_due_does_not_start_where_a_leader_waits_for_its_restart() -> None:
    """A pause from before the lead ended in the middle of another one, and there were two drivers under one token."""

    async def script(one: World) -> None:
        one.restart_delay = 20.0
        pod, driver = await leading(one)
        assert pod.replica is not None
        driver.die(1)
        await asyncio.sleep(1.0)
        await pod.replica._execute.execute(StartStandby(5.0))
        await asyncio.sleep(15.0)
        assert pod.drivers == [driver]
        await asyncio.sleep(10.0)
        assert len(pod.drivers) == 2
        assert pod.drivers[-1].gate.view.token > driver.gate.view.token

    world().run(script)


def test_a_lock_that_is_lost_while_the_job_is_claimed_opens_no_gate() -> None:
    """It was deleted, another replica took it, and the one before opened its gate all the same, for a moment."""

    async def script(one: World) -> None:
        pod = await acquired(one)
        other = Record({GRANT: GrantEntry(1, "other", "n").encode()}, LeaderRecord("other", 15.0, "", "", 1))
        name = one.settings(1).names.lock
        one.api.documents.overwrite(name, record.dump(name, other))
        await until(one, lambda: any(event.event == "lost" for event in pod.said))
        pod.lines[0].cut = False
        for _ in range(500):
            await asyncio.sleep(0.01)
            assert not pod.leads

    world().run(script)


def test_who_is_told_to_stop_before_it_could_claim_the_job_gives_the_lock_back() -> None:
    """It had the lock and no document, and went without a word: the others waited a whole lease."""

    async def script(one: World) -> None:
        pod = await acquired(one)
        await asyncio.sleep(2.0)
        assert not pod.leads
        pod.sigterm()
        await asyncio.sleep(3.0)
        assert pod.gone
        assert any(event.event == "released" for event in pod.said)

    world().run(script)


def test_a_lock_restored_while_another_leads_is_not_taken_on_the_word_of_its_dead_holder() -> None:
    """The processes of the leader it named were gone, so it was taken at once, and user code ran in two drivers."""
    assert a_lock_is_restored_whose_holder_is_dead() == []


def test_a_job_restored_between_two_drivers_repeats_no_token() -> None:
    """Its document had forgotten the second attempt, and the third one would have claimed under the second's token."""

    async def script(one: World) -> None:
        pod, driver = await leading(one)
        name = one.settings(1).names.job_document
        backup = one.api.documents.stored[name][1]
        driver.die(1)
        await until(one, lambda: len(pod.drivers) >= 2 and pod.drivers[-1].open)
        second = pod.drivers[-1]
        second.die(1)
        one.api.documents.overwrite(name, backup)
        await asyncio.sleep(60.0)
        assert pod.drivers[-1].gate.view.token > second.gate.view.token

    world().run(script)


def test_a_script_that_fails_with_a_megabyte_of_text_is_followed_by_another_driver() -> None:
    """Its reason did not fit into the job's document, and the leader kept the lock, and no driver, for as long as it lived."""

    async def script(one: World) -> None:
        one.failure = f"ValueError: bad rows: {['x' * 100] * 12_000}"
        pod, driver = await leading(one)
        one.fails = 1.0
        await until(one, lambda: not driver.process.alive)
        one.fails = 0.0
        await until(one, lambda: len(pod.drivers) >= 2 and pod.drivers[-1].open)
        assert one.holds.job is not None
        assert one.holds.job.reason.startswith("ValueError: bad rows: ['xxx")
        assert one.holds.job.reason.endswith("characters)")

    world().run(script)


def test_a_document_too_large_for_what_has_to_be_written_ends_a_leader_and_is_not_tried_for_ever() -> None:
    """Here not for a text: foreign entries fill it."""

    async def script(one: World) -> None:
        pod, driver = await leading(one)
        name = one.settings(1).names.job_document
        server = one.api.documents
        stored = server.base(name)
        server.overwrite(
            name, record.dump(name, replace(stored, entries={**stored.entries, "theirs": "x" * (1 << 20)}))
        )
        driver.die(1)
        await until(one, lambda: pod.gone)
        assert pod.exit_code == DocumentTooLarge.exit_code
        assert any(event.event == "released" for event in pod.said)

    world().run(script)


def test_a_leader_told_to_stop_lets_the_scripts_own_handler_end_behind_a_closed_gate() -> None:
    async def script(one: World) -> None:
        pod, driver = await leading(one)
        driver.handler = one.settings(1).takeover.stop_patience / 2
        pod.sigterm()
        await until(one, lambda: driver.gate.view.state is State.CLOSED)
        await until(one, lambda: pod.gone)
        assert driver.handled
        assert pod.exit_code == 0
        events = [event.event for event in pod.said]
        assert events.index("script-told") < events.index("released")

    world().run(script)


def test_a_handler_that_takes_longer_than_patience_is_not_waited_for() -> None:
    async def script(one: World) -> None:
        pod, driver = await leading(one)
        driver.handler = 3600.0
        pod.sigterm()
        await until(one, lambda: pod.gone)
        assert not driver.handled
        assert pod.exit_code == 0

    world().run(script)


def test_a_standby_told_to_stop_lets_the_scripts_own_handler_end_too() -> None:
    async def script(one: World) -> None:
        await leading(one)
        standby = next(pod for pod in one.pods if not pod.leads)
        await until(one, lambda: bool(standby.drivers))
        driver = standby.drivers[-1]
        driver.handler = 0.1
        standby.sigterm()
        await until(one, lambda: standby.gone)
        assert driver.handled
        assert standby.exit_code == 0

    world(replicas=2).run(script)


def test_a_takeover_that_never_comes_to_its_queries_is_a_failure_and_another_replica_leads() -> None:
    """A listener asked for the list of queries while one started: the lease was renewed for ever, and nothing was committed."""

    async def script(one: World) -> None:
        pod, driver = await leading(one)
        other = next(each for each in one.pods if each is not pod)
        await until(one, lambda: any(event.event == "rehearsed" for event in other.said))
        one.stuck = True
        driver.die(1)
        await until(one, lambda: other.leads and other.drivers[0].open)
        one.stuck = False  # the next one is not
        await until(
            one,
            lambda: (
                one.checkpoint.last_token is not None and one.checkpoint.last_token > other.drivers[0].gate.view.token
            ),
        )
        assert "have not started within 120 s of the grant" in other.drivers[0].killed_because
        assert one.holds.job is not None
        assert len(one.holds.job.failures) >= 1
        assert not one.holds.broken

    world(replicas=2).run(script)


def test_the_limit_of_a_takeover_does_not_count_while_the_gate_is_closed() -> None:
    """An outage of ten minutes holds every write of a takeover, and that is not the driver's fault."""

    async def script(one: World) -> None:
        pod, driver = await leading(one)
        assert pod.replica is not None
        limit = pod.replica._execute.reports._limit
        limit.begins(driver)  # type: ignore[arg-type] # a simulated one
        driver.show(replace(driver.gate.view, state=State.CLOSED))
        await asyncio.sleep(600.0)
        assert driver.killed_because == ""
        limit.ends()

    world().run(script)


@pytest.mark.parametrize("by_a_look", [False, True])
def test_a_job_canceled_while_its_leader_does_not_know_that_it_is_suspended_is_run_by_no_driver(
    by_a_look: bool,
) -> None:
    """The answer to SUSPENDED was lost, the job was canceled, and its leader let the driver go on: it wrote for as long as it lived."""

    async def script(one: World) -> None:
        pod, driver = await leading(one)
        name = one.settings(1).names.job_document

        def cut(changed: str) -> None:
            if changed == name and one.holds.job is not None and one.holds.job.status is Status.SUSPENDED:
                pod.lines[0].cut = True

        one.api.documents.listeners.append(cut)
        await one.jobs.ask(Request("suspend", Action.SUSPEND, "ann", one.loop.now, 60.0))
        await until(one, lambda: pod.lines[0].cut)
        one.api.documents.listeners.remove(cut)
        assert driver.open, "it is held, and its leader waits for an answer"
        await one.jobs.ask(Request("cancel", Action.CANCEL, "ann", one.loop.now, 60.0))
        assert one.holds.job is not None
        assert one.holds.job.status is Status.CANCELED
        if by_a_look and pod.replica is not None:  # which comes before its own next try
            pod.replica._inbox.put_nowait(job_changed(one.holds.job, ""))
        committed = one.checkpoint.last_token, one.checkpoint.last(COMMITS)
        pod.lines[0].cut = False
        await asyncio.sleep(_LOOK_AT_JOB)
        assert not any(each.open for each in pod.drivers)
        await until(one, lambda: pod.gone)
        assert pod.exit_code == 0
        assert (one.checkpoint.last_token, one.checkpoint.last(COMMITS)) == committed
        assert any(event.event == "released" for event in pod.said)
        assert not one.holds.broken

    world().run(script)


@pytest.mark.parametrize(("deadlines", "status"), [(0.6, Status.FINISHED), (100.0, Status.RUNNING)])
def test_a_script_that_has_ended_is_finished_although_its_pod_is_deleted_before_that_could_be_recorded(
    deadlines: float, status: Status
) -> None:
    """One request failed after SIGTERM, and the successor ran the whole script again. The server answers again after so many renew deadlines;
    where it stays away, the lock is given back.
    """

    async def script(one: World) -> None:
        one.batches = 3
        pod, driver = await leading(one)
        pod.lines[0].cut = True
        await until(one, lambda: not driver.process.alive)
        await asyncio.sleep(1.0)
        pod.sigterm()
        told, renew = one.loop.now, one.settings(1).timings.renew
        await until(one, lambda: pod.gone or one.loop.now - told > deadlines * renew)
        pod.lines[0].cut = False
        await until(one, lambda: pod.gone)
        assert one.loop.now - told < 2 * renew
        assert any(event.event == "released" for event in pod.said)
        assert one.holds.job is not None
        assert one.holds.job.status is status
        assert not one.holds.broken

    world().run(script)


def test_failures_are_forgotten_once_a_driver_has_run_and_not_while_none_does() -> None:
    """By the time since a failure alone, a driver that took long enough to fail was never given up."""

    async def script(one: World) -> None:
        def failures() -> int:
            assert one.holds.job is not None
            return len(one.holds.job.failures)

        one.restart_delay = 60.0
        pod, driver = await leading(one)
        driver.die(1)
        await until(one, lambda: failures() == 1)
        await asyncio.sleep(55.0)
        assert pod.drivers == [driver], "no driver runs for longer than the window, 10 s"
        await until(one, lambda: len(pod.drivers) == 2)
        pod.drivers[1].die(1)
        await until(one, lambda: failures() == 2)
        await until(one, lambda: len(pod.drivers) == 3)
        await asyncio.sleep(140.0)  # it is looked at once a minute
        assert failures() == 0
        pod.drivers[2].die(1)
        await until(one, lambda: failures() == 1)
        assert not one.holds.broken

    world().run(script)
