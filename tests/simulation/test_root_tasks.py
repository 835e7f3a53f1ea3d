"""Parts of a replica that fail alone: the job must not stay without a leader by that."""

from __future__ import annotations

import asyncio

from tests.simulation.world import World
from tests.simulation.written import leading, until, world
from understudy.errors import InternalError, ProcessesRemain


def test_an_elector_that_dies_ends_its_process_and_another_leads() -> None:
    """A grant that could not be logged killed the elector's task; its process held the lock for ever, and led nothing."""

    async def script(one: World) -> None:
        first, _ = await leading(one)
        await asyncio.sleep(30.0)
        (standby,) = [pod for pod in one.living() if pod is not first]
        one.failures.planned[f"acquired in the log of {standby.holder}"] = 1
        first.die()
        await until(one, lambda: standby.exit_code is not None)
        assert standby.exit_code == InternalError.exit_code
        reasons = [event.sentence for event in standby.said if event.event == "stopped-for"]
        assert len(reasons) == 1
        assert "the elector: Planned" in reasons[0]
        await until(one, lambda: any(pod.leads for pod in one.living()))
        assert not one.holds.broken

    world(replicas=2).run(script)


def test_a_standby_whose_driver_cannot_be_started_once_has_one_later() -> None:
    """The task that should have started it had died, and was never awaited."""

    async def script(one: World) -> None:
        leader, _ = await leading(one)
        await asyncio.sleep(30.0)
        (standby,) = [pod for pod in one.living() if pod is not leader]
        before = len(standby.drivers)
        one.failures.planned["a driver's start"] = 2
        standby.drivers[-1].die(1)
        await until(one, lambda: len(standby.drivers) > before)
        ended = [event.sentence for event in standby.said if event.event == "standby-ended"]
        assert len(ended) == 3
        assert all("could not be started: Planned" in sentence for sentence in ended[1:])
        assert not one.holds.broken

    world(replicas=2).run(script)


def test_a_leader_whose_driver_cannot_be_started_once_starts_it_again() -> None:
    async def script(one: World) -> None:
        leader, driver = await leading(one)
        one.failures.planned["a driver's start"] = 1
        driver.die(1)
        await until(one, lambda: leader.leads and leader.drivers[-1] is not driver)
        died = [event.sentence for event in leader.said if event.event == "driver-died"]
        assert "could not be started: Planned" in died[-1]
        assert not one.holds.broken

    world().run(script)


def test_evidence_that_broke_once_is_evidence_again() -> None:
    async def script(one: World) -> None:
        first, _ = await leading(one)
        one.replicas = 2
        one.start()
        second = one.pods[-1]
        one.failures.planned[f"evidence of {second.holder}"] = 1
        await until(one, lambda: any(event.event == "task-failed" for event in second.said))
        await asyncio.sleep(30.0)
        first.die()
        await until(one, lambda: second.leads)
        assert [event.facts["how"] for event in second.said if event.event == "detected"] == ["evidence"]

    world().run(script)


def test_a_leader_whose_driver_does_not_die_stops_renewing_and_another_leads() -> None:
    """It renewed for as long as a process of its driver hung in the kernel, and no replica led."""

    async def script(one: World) -> None:
        first, driver = await leading(one)
        await asyncio.sleep(30.0)
        (standby,) = [pod for pod in one.living() if pod is not first]
        driver.hangs = True
        driver.die(1)
        await until(one, lambda: standby.leads)
        assert first.exit_code == ProcessesRemain.exit_code
        assert [event.sentence for event in first.said if event.event == "stopped-for"] == [
            (
                "driver 0: its processes were killed 40 s ago, and some are still there. A disk or file system of this machine hangs: "
                "see `ps -eo pid,stat,wchan,args`. Another replica leads when the lease has run out"
            )
        ]
        assert not any(event.event == "released" for event in first.said)
        assert not one.holds.broken

    world(replicas=2).run(script)


def test_a_leader_that_is_told_to_stop_and_whose_driver_does_not_die_releases_nothing() -> None:
    async def script(one: World) -> None:
        first, driver = await leading(one)
        await asyncio.sleep(30.0)
        driver.hangs = True
        first.sigterm()
        await until(one, lambda: any(pod.leads for pod in one.living() if pod is not first))
        assert not any(event.event == "released" for event in first.said)
        assert not one.holds.broken

    world(replicas=2).run(script)
