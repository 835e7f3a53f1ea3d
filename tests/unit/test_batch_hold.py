"""When a leader's driver says that it holds everything, and what it names where it cannot; without a JVM."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.driver import batch_hold
from understudy.driver.batch_hold import BatchHold
from understudy.protocol.messages import Held, Hold, Message, Save


class Leader:
    """``in_flight``: how many looks at the fence still find a batch; ``writes``: how many at the script's code find some."""

    def __init__(self, *, in_flight: int = 0, writes: int = 0, settles: bool = True, ended: bool = False) -> None:
        self.drains, self.not_started, self.undrainable = False, "", ""
        self.saves, self.unsavable = False, ""
        self.in_flight, self._writes, self._settles = in_flight, writes, settles
        self.held = self.let_go_times = 0
        self.reported: list[int] = []
        self.sent: queue.Queue[Message] = queue.Queue()
        self.released = threading.Event()
        self.looks = threading.Event()  # cleared: a look asks a store that does not answer
        self.looks.set()
        self.copying, self.times = threading.Event(), queue.Queue[float]()
        running = SimpleNamespace(isActive=not ended)
        flights = SimpleNamespace(name="flights", checkpoint="file:/checkpoints/flights", query=running)
        other = SimpleNamespace(name="other", checkpoint="file:/checkpoints/other", query=running)
        leader = self

        class GateClient:
            @property
            def writes(self) -> bool:
                leader._writes -= 1
                return leader._writes >= 0

            def hold(self) -> None:
                leader.held += 1
                leader.released.clear()

            def let_go(self) -> None:
                leader.released.set()

            def lines_that_run(self) -> list[str]:
                return ["job.py:7"] if leader._writes > 0 else []

        parts: dict[str, Any] = {
            "gate_client": GateClient(),
            "registry": SimpleNamespace(queries=lambda: [flights, other]),
            "fence": SimpleNamespace(
                hold_batches=lambda: None,
                await_quiet=self._await_quiet,
                release=lambda: None,
                roots_in_flight=lambda: {"/checkpoints/flights"},
                attached_to_jvm=True,
            ),
            "takeover": SimpleNamespace(settled=lambda within: settles),
            "drain": SimpleNamespace(
                not_started=lambda within: self.not_started,
                refusal=lambda: self.undrainable,
                roots=lambda: ["file:/checkpoints/flights"],
            ),
            "savepoints": SimpleNamespace(refusal=lambda: self.unsavable, take=self._take),
            "checkpoints": SimpleNamespace(report=lambda: self.reported.append(self.held)),
        }
        self.hold = BatchHold(**parts, send=self.sent.put)

    def _take(self, asked: Save, copied: Callable[[], float]) -> None:
        self.copying.wait(30.0)
        self.times.put(copied())

    def _await_quiet(self, within_ms: int) -> bool:
        self.looks.wait(30.0)
        self.in_flight -= 1
        return self.in_flight < 0

    def answer(self, timeout: float) -> Message:
        self.hold.begin(Hold("r1", timeout, self.drains, self.saves))
        return self.sent.get(timeout=30.0)


@pytest.mark.parametrize("leader", [Leader(), Leader(in_flight=3), Leader(writes=2)], ids=["idle", "batch", "writer"])
def test_it_holds_once_nothing_runs(leader: Leader) -> None:
    assert leader.answer(30.0) == Held("r1", "")
    assert leader.held
    assert len(leader.reported) == 1, "what is committed is told before the answer"
    assert not leader.released.is_set(), "the hold lasts"


def test_after_its_time_it_lets_go_and_names_queries_and_lines() -> None:
    leader = Leader(in_flight=10**9, writes=10**9)
    assert leader.answer(0.1) == Held("r1", "query flights, job.py:7")
    assert leader.released.is_set()


def test_a_takeover_comes_first() -> None:
    leader = Leader(settles=False)
    assert leader.answer(0.1) == Held("r1", "the takeover")
    assert leader.released.is_set()


def test_a_query_that_has_ended_in_a_batch_is_not_waited_for_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_hold, "_STARTED_AGAIN", 0.2)
    said = Leader(in_flight=10**9, ended=True).answer(3600.0)
    assert said == Held("r1", "query flights has ended in the middle of a batch, and is not started again")


def test_a_hold_that_is_let_go_says_nothing_and_the_next_one_does() -> None:
    leader = Leader(in_flight=10**9)
    leader.hold.begin(Hold("r1", 3600.0, False))
    leader.hold.let_go()
    time.sleep(0.3)
    assert leader.released.is_set(), "and the thread that was under way holds nothing again"
    leader.in_flight = 0
    leader.hold.begin(Hold("r2", 30.0, False))
    assert leader.sent.get(timeout=30.0) == Held("r2", "")


def test_a_look_that_lasts_does_not_keep_it_from_being_let_go() -> None:
    leader = Leader()
    leader.looks.clear()
    leader.hold.begin(Hold("r1", 3600.0, False))
    while not leader.held:
        time.sleep(0.01)
    leader.hold.let_go()
    assert leader.released.is_set()
    leader.looks.set()
    leader.hold.begin(Hold("r2", 30.0, False))
    assert leader.sent.get(timeout=30.0) == Held("r2", ""), "the first one says nothing"


def test_a_hold_for_a_drain_names_the_checkpoints_that_have_to_be_drained() -> None:
    leader = Leader(in_flight=2)
    leader.drains = True
    assert leader.answer(30.0) == Held("r1", "", roots=["file:/checkpoints/flights"])


def test_nothing_is_held_for_a_drain_that_a_query_cannot_follow() -> None:
    leader = Leader()
    leader.drains, leader.undrainable = True, "query flights cannot be drained"
    assert leader.answer(30.0) == Held("r1", "query flights cannot be drained", refused=True)
    assert not leader.held


def test_a_drain_that_begins_with_a_savepoint_holds_nothing_where_none_can_be_taken() -> None:
    leader = Leader()
    leader.drains, leader.saves, leader.unsavable = True, True, "query flights has a temporary checkpoint"
    said = leader.answer(30.0)
    assert isinstance(said, Held)
    assert said.refused
    assert said.busy.startswith("no savepoint can be taken first: query flights has a temporary checkpoint")
    assert "--no-savepoint" in said.busy
    assert not leader.held


def test_a_query_that_has_not_started_is_not_left_out_of_a_drain() -> None:
    leader = Leader()
    leader.drains, leader.not_started = True, "no query has started"
    assert leader.answer(0.1) == Held("r1", "no query has started")
    assert not leader.held


def test_nothing_is_held_for_a_savepoint_that_a_query_cannot_have() -> None:
    leader = Leader()
    leader.saves, leader.unsavable = True, "query flights has a temporary checkpoint"
    assert leader.answer(30.0) == Held("r1", "query flights has a temporary checkpoint", refused=True)
    assert not leader.held


@pytest.mark.parametrize("keep", [True, False])
def test_the_hold_of_a_savepoint_ends_with_its_copies_unless_it_is_kept(keep: bool) -> None:
    leader = Leader()
    leader.saves = True
    assert leader.answer(30.0) == Held("r1", "")
    leader.hold.save(Save("r1", 7, "file:///s", 30.0, keep))
    time.sleep(0.1)
    assert not leader.released.is_set(), "files are copied yet"
    leader.copying.set()
    assert leader.times.get(timeout=30.0) >= 0.1
    assert leader.released.is_set() is not keep


def test_a_savepoint_that_was_withdrawn_does_not_end_the_next_hold() -> None:
    leader = Leader()
    assert leader.answer(30.0) == Held("r1", "")
    leader.hold.save(Save("r1", 7, "file:///s", 30.0, keep=False))
    leader.hold.let_go()
    leader.hold.begin(Hold("r2", 30.0))
    assert leader.sent.get(timeout=30.0) == Held("r2", "")
    leader.copying.set()
    leader.times.get(timeout=30.0)
    assert not leader.released.is_set()
