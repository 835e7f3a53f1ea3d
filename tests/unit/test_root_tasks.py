"""Tasks that live as long as a replica: what becomes of one that ends before it does."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from understudy.errors import DocumentError, InternalError, LeadershipLost, SettingsError
from understudy.events import Event, Log
from understudy.supervisor import root_tasks
from understudy.supervisor.root_tasks import RootTasks


async def forever() -> int:
    await asyncio.sleep(3600)
    return 0


def played(play: Callable[[RootTasks], Coroutine[Any, Any, None]]) -> list[Event]:
    """What was said while ``play`` ran."""
    said: list[Event] = []

    async def run() -> None:
        tasks = RootTasks(Log(stream=io.StringIO(), listeners=[said.append]))
        try:
            await asyncio.wait_for(play(tasks), 30.0)
        finally:
            await tasks.close()

    asyncio.run(run())
    return said


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            OSError(28, "No space left on device"),
            InternalError,
            r"the elector: OSError: .*No space.*test_root_tasks.py:\d+",
        ),
        (LeadershipLost("gone"), InternalError, "the elector: LeadershipLost: gone"),
        (SettingsError("wrong", remedy="Set it right"), SettingsError, "wrong. Set it right"),
    ],
)
def test_a_needed_task_that_fails_ends_what_depends_on_it_with_its_reason(
    error: BaseException, kind: type[Exception], words: str
) -> None:
    async def fails() -> None:
        raise error

    async def play(tasks: RootTasks) -> None:
        tasks.need("the elector", fails)
        with pytest.raises(kind, match=words):
            await tasks.guard(forever())

    played(play)


def test_what_a_needed_task_was_needed_for_is_over_before_its_error_is_raised() -> None:
    over: list[str] = []

    async def main() -> int:
        try:
            return await forever()
        finally:
            await asyncio.sleep(0.01)
            over.append("main")

    async def fails() -> None:
        await asyncio.sleep(0.01)
        raise OSError

    async def play(tasks: RootTasks) -> None:
        tasks.need("the elector", fails)
        with pytest.raises(InternalError):
            await tasks.guard(main())
        assert over == ["main"]

    played(play)


def test_a_result_that_is_there_counts() -> None:
    async def fails() -> None:
        raise OSError

    async def result() -> int:
        return 7

    async def play(tasks: RootTasks) -> None:
        tasks.need("the elector", fails)
        assert await tasks.guard(result()) == 7

    played(play)


def test_a_needed_task_may_come_to_its_end() -> None:
    async def stopped() -> None:
        return

    async def main() -> int:
        await asyncio.sleep(0.05)
        return 0

    async def play(tasks: RootTasks) -> None:
        tasks.need("the elector", stopped)
        assert await tasks.guard(main()) == 0

    played(play)


@pytest.mark.parametrize("error", [ValueError("half a line"), DocumentError("no answer"), LeadershipLost("gone")])
def test_a_watcher_that_fails_is_begun_again_and_said_once(error: BaseException) -> None:
    runs = 0

    async def play(tasks: RootTasks) -> None:
        works = asyncio.Event()

        async def watch() -> None:
            nonlocal runs
            runs += 1
            if runs < 3:
                raise error
            works.set()
            await forever()

        tasks.watch("the watch", watch)
        await works.wait()

    said = played(play)
    assert runs == 3
    assert [(event.event, event.facts) for event in said] == [("task-failed", {"task": "the watch"})]
    assert str(error) in said[0].sentence


def test_a_watcher_that_met_a_wrong_setting_ends_the_replica() -> None:
    async def watch() -> None:
        raise SettingsError("wrong")

    async def play(tasks: RootTasks) -> None:
        tasks.watch("the watch", watch)
        with pytest.raises(SettingsError):
            await tasks.guard(forever())

    assert played(play) == []


def test_a_watcher_takes_the_place_of_an_earlier_one_of_its_name() -> None:
    ran: list[str] = []

    def named(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def watch() -> None:
            await asyncio.sleep(0.05)
            ran.append(name)

        return watch

    async def play(tasks: RootTasks) -> None:
        tasks.watch("one", named("first"))
        await asyncio.sleep(0.01)
        tasks.watch("one", named("second"))
        await asyncio.sleep(0.2)
        assert ran == ["second"]

    played(play)


def test_no_task_outlives_its_owner() -> None:
    async def play(tasks: RootTasks) -> None:
        ended: list[str] = []

        async def watch() -> None:
            try:
                await forever()
            finally:
                ended.append("watch")

        for name in ("one", "two"):
            tasks.watch(name, watch)
        await asyncio.sleep(0.01)
        tasks.watch("one", watch)
        await asyncio.sleep(0.01)
        await tasks.close()
        assert len(ended) == 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def run() -> None:
        await play(RootTasks(Log(stream=io.StringIO())))

    asyncio.run(run())


def test_a_task_that_takes_its_cancellation_for_a_result_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``asyncio.wait_for`` does before Python 3.12, where both come in one turn of the loop."""
    monkeypatch.setattr(root_tasks, "_CANCEL_AGAIN", 0.01)
    lost = []

    async def watch() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                lost.append("one")
                if len(lost) == 3:
                    raise

    async def run() -> None:
        tasks = RootTasks(Log(stream=io.StringIO()))
        tasks.watch("one", watch)
        await asyncio.sleep(0)
        await asyncio.wait_for(tasks.close(), 30.0)
        assert len(lost) == 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
