"""When a leader that is told to stop reports that it may end, and whether it lost work; without a JVM."""

from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from understudy.driver.quiesce import Quiesce
from understudy.protocol.messages import Message, Quiesced

TEN_SECONDS = 10.0


class Leader:
    """``quiet``: what the fence answers, the last answer again and again. ``code_runs``: looks at user code that still find it."""

    def __init__(
        self,
        *quiet: bool,
        code_runs: int = 0,
        may_end: bool = True,
        rows: bool = True,
        in_flight: int = 0,
        failed: bool = False,
    ) -> None:
        self._quiet, self._code_runs, self._in_flight = list(quiet), code_runs, in_flight
        self.asked: list[int] = []
        self.sent: queue.Queue[Message] = queue.Queue()
        query = SimpleNamespace(isActive=not failed, status={"isDataAvailable": rows})
        pending = SimpleNamespace(
            query=query, sink=SimpleNamespace(kind="foreachbatch"), checkpoint="file:/checkpoints/mine"
        )
        leader = self

        class GateClient:
            @property
            def user_code_runs(self) -> bool:
                leader._code_runs -= 1
                return leader._code_runs >= 0

            def may_end_by(self, until: float) -> bool:
                return may_end

        parts: dict[str, Any] = {
            "gate_client": GateClient(),
            "registry": SimpleNamespace(queries=lambda: [pending]),
            "fence": SimpleNamespace(quiesce=self.quiesce, roots_in_flight=self.roots_in_flight),
        }
        self.quiesce_part = Quiesce(**parts, send=self.sent.put)

    def quiesce(self, within_ms: int) -> bool:
        self.asked.append(within_ms)
        return self._quiet.pop(0) if len(self._quiet) > 1 else self._quiet[0]

    def roots_in_flight(self) -> set[str]:
        self._in_flight -= 1
        return {"/checkpoints/mine", "/checkpoints/other"} if self._in_flight >= 0 else {"/checkpoints/other"}

    def may_end(self, patience: float = TEN_SECONDS) -> bool:
        self.quiesce_part.before_handover(patience)
        answer = self.sent.get(timeout=TEN_SECONDS)
        assert isinstance(answer, Quiesced)
        return answer.clean


def test_without_a_batch_in_flight_it_ends_at_once() -> None:
    leader = Leader(True)
    assert leader.may_end()
    assert leader.asked == [50]


def test_a_batch_of_sparks_is_cut_off() -> None:
    leader = Leader(False)
    assert not leader.may_end()
    assert leader.asked == [50]


def test_batches_without_rows_are_waited_for() -> None:
    leader = Leader(False, True, rows=False)
    assert leader.may_end(patience=3.0)
    assert leader.asked == [50, 3000]


def test_a_query_that_has_failed_leaves_its_batch_in_flight_and_is_not_waited_for() -> None:
    leader = Leader(False, rows=False, failed=True)
    assert not leader.may_end()
    assert leader.asked == [50]


def test_user_code_that_usually_takes_longer_is_not_waited_for() -> None:
    leader = Leader(False, code_runs=99, may_end=False)
    assert not leader.may_end()
    assert leader.asked == [50]


def test_user_code_is_waited_for_until_patience_is_over() -> None:
    assert not Leader(False, code_runs=10**9).may_end(patience=0.1)


def test_user_code_that_ends_in_time_is_waited_for_and_so_is_its_commit() -> None:
    leader = Leader(False, False, False, False, True, code_runs=3, in_flight=1)
    assert leader.may_end()


def test_a_commit_that_does_not_come_is_not_waited_for_long() -> None:
    assert not Leader(False, code_runs=3, in_flight=10**9).may_end()


def test_a_store_that_does_not_answer_counts_as_a_batch_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(False, code_runs=3)

    def unanswered() -> set[str]:
        error = Py4JJavaError.__new__(Py4JJavaError)
        leader._in_flight += 1
        raise error

    leader.quiesce_part.fence.roots_in_flight = unanswered  # type: ignore[method-assign]
    assert not leader.may_end()
    assert leader._in_flight > 1, "it was asked again and again, until the time for a commit was over"
