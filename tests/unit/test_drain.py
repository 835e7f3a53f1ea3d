"""The driver's side of a drain: whom it waits for, what it refuses, and what it does to each query."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.driver import drain
from understudy.driver.drain import Drain
from understudy.protocol.messages import Drained, Message

ROOT = "file:/checkpoints/flights"


class Query:
    """A real one's answers. ``drains``: the batch that its next start commits."""

    def __init__(self, fence: Fence, name: str = "flights", *, begun: bool = True, no_boundary: str = "") -> None:
        self.fence, self.name, self.no_boundary = fence, name, no_boundary
        self.checkpoint, self.session, self.error = ROOT, None, None
        self.begun, self.recovery = threading.Event(), threading.Lock()
        if begun:
            self.begun.set()
        self.query: Any = SimpleNamespace(isActive=True, stop=lambda: fence.did.append("stop"), exception=lambda: None)


class Fence:
    """The JVM's, with one checkpoint: batch 4 is its last."""

    def __init__(self, *, drained: int = -1, watermark: bool = True, batch: int = 5) -> None:
        self.drained, self.watermark, self.batch = drained, watermark, batch
        self.last, self.in_flight = 4, 0
        self.did: list[str] = []

    def has_watermark(self, _: Any) -> bool:
        return self.watermark

    def drained_by(self, root: str, _: Any) -> int:
        assert root == ROOT
        return self.drained

    def drain(self, _: str, __: Any) -> int:
        assert self.in_flight <= 0, "the batch of a predecessor runs first"
        self.did.append("entry")
        return self.batch

    def roots_in_flight(self) -> set[str]:
        self.in_flight -= 1
        return {"/checkpoints/flights"} if self.in_flight >= 0 else set()

    def committed(self) -> dict[str, int]:
        return {"/checkpoints/flights": self.last}


class Script:
    def __init__(self, fence: Fence, *queries: Query, unclaimed: tuple[str, ...] = (), starts: bool = True) -> None:
        self.fence, self.starts = fence, starts
        self.sent: queue.Queue[Message] = queue.Queue()
        self.questions_wait = False
        parts: dict[str, Any] = {
            "registry": SimpleNamespace(queries=lambda: list(queries), drain=self._questions_wait),
            "claims": SimpleNamespace(unclaimed=list(unclaimed)),
            "fence": fence,
            "launcher": SimpleNamespace(start_one=self._start),
            "recovery": SimpleNamespace(watch=lambda _: None, recover=lambda *_: False),
            "checkpoints": SimpleNamespace(report=lambda: fence.did.append("report")),
        }
        self.drain = Drain(**parts, send=self.sent.put)

    def _questions_wait(self) -> None:
        self.questions_wait = True

    def _start(self, query: Query) -> None:
        self.fence.did.append("start")
        if self.starts:
            query.query = SimpleNamespace(isActive=True)
            self.fence.last = self.fence.batch
        else:
            query.error = ValueError("no such directory")  # type: ignore[assignment]

    def drained(self) -> Message:
        self.drain.begin("d1", [ROOT])
        return self.sent.get(timeout=30.0)


def test_a_query_is_stopped_gets_its_entry_and_is_started_again() -> None:
    fence = Fence()
    script = Script(fence, Query(fence))
    assert script.drained() == Drained("d1", "")
    assert fence.did == ["stop", "entry", "start", "report"]
    assert script.questions_wait


def test_the_batch_of_a_predecessor_runs_first() -> None:
    fence = Fence()
    fence.in_flight = 3
    assert Script(fence, Query(fence)).drained() == Drained("d1", "")
    assert fence.in_flight < 0


def test_a_query_whose_entry_is_there_is_only_waited_for() -> None:
    fence = Fence(drained=4)
    assert Script(fence, Query(fence)).drained() == Drained("d1", "")
    assert fence.did == ["report"]


def test_a_query_that_has_ended_by_itself_once_its_last_batch_was_committed_is_drained() -> None:
    fence = Fence(drained=4)
    query = Query(fence)
    query.query.isActive = False
    assert Script(fence, query).drained() == Drained("d1", "")


def test_the_scripts_questions_are_answered_until_all_of_its_queries_have_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "_STARTS", 0.3)
    script = Script(Fence(), Query(Fence()))
    script.drain.begin("d1", [ROOT, "file:/not/started"])
    said = script.sent.get(timeout=30.0)
    assert isinstance(said, Drained)
    assert "no query uses this checkpoint" in said.problem
    assert not script.questions_wait


def test_a_query_that_never_ran_a_batch_has_nothing_to_drain() -> None:
    fence = Fence(batch=-1)
    assert Script(fence, Query(fence)).drained() == Drained("d1", "")
    assert fence.did == ["stop", "entry", "report"]


def test_a_query_that_does_not_start_again_is_a_problem() -> None:
    fence = Fence()
    assert Script(fence, Query(fence), starts=False).drained() == Drained("d1", "ValueError: no such directory")


def test_a_query_that_ends_before_its_commit_is_a_problem() -> None:
    fence = Fence(drained=9)
    query = Query(fence)
    query.query.isActive = False
    said = Script(fence, query).drained()
    assert isinstance(said, Drained)
    assert "it has ended before it was drained" in said.problem


def test_a_checkpoint_that_no_query_uses_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "_STARTS", 0.1)
    said = Script(Fence()).drained()
    assert isinstance(said, Drained)
    assert "no query uses this checkpoint" in said.problem


def test_a_drain_waits_for_queries_on_record_and_for_those_that_are_starting() -> None:
    fence = Fence()
    assert Script(fence, Query(fence)).drain.not_started(0.0) == ""
    assert Script(fence).drain.not_started(0.0) == "no query has started"
    assert "file:/other" in Script(fence, Query(fence), unclaimed=("file:/other",)).drain.not_started(0.0)
    assert ROOT in Script(fence, Query(fence, begun=False)).drain.not_started(0.0)


def test_a_query_that_has_ended_keeps_rows_back_too() -> None:
    fence = Fence()
    query = Query(fence)
    query.query.isActive = False
    assert Script(fence, query).drain.roots() == [ROOT]


def test_only_queries_with_a_watermark_are_drained_and_one_without_a_boundary_is_refused() -> None:
    fence, without = Fence(), Fence(watermark=False)
    assert Script(fence, Query(fence)).drain.roots() == [ROOT]
    assert Script(without, Query(without)).drain.roots() == []
    assert Script(fence, Query(fence)).drain.refusal() == ""
    refused = Script(fence, Query(fence), Query(fence, "live", no_boundary="runs without an end")).drain.refusal()
    assert refused == "query live cannot be drained: it runs without an end"
