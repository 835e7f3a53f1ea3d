"""What a round of rehearsals comes to, and what it spends. The rehearsals themselves are the JVM's: tests/spark."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

from understudy.driver.read_budget import ReadBudget
from understudy.driver.rehearsal_round import NotRehearsed, Rehearsed, RoundResult, run_round

HOUR = 3600.0


class Rehearsal:
    """The JVM's: reads ``bytes_read``, and ends as ``how`` or with an error."""

    def __init__(self, how: str, *, rows: int = 0, bytes_read: int = 0, error: BaseException | None = None) -> None:
        self._how, self._rows, self._error = how, rows, error
        self._read, self._more = 7, bytes_read

    def bytesRead(self) -> int:  # noqa: N802 - Java's name
        return self._read

    def round(self) -> str:
        self._read += self._more
        if self._error is not None:
            raise self._error
        return json.dumps({"how": self._how, "rows": self._rows})


class JavaError(Exception):
    java_exception = SimpleNamespace(getMessage=lambda: "it is not there")


def played(rehearsals: dict[str, Rehearsal], budget: ReadBudget) -> RoundResult:
    queries: Any = [SimpleNamespace(name=name) for name in rehearsals]
    return run_round(queries, lambda _, query: rehearsals[query.name], budget)


def budget() -> ReadBudget:
    """One row or byte is paid for with a second."""
    return ReadBudget(3600, 3600, lambda: 0.0)


def test_a_round_of_rehearsed_queries_has_not_failed() -> None:
    result = played({"a": Rehearsal("synthetic"), "b": Rehearsal("live"), "c": Rehearsal("live")}, budget())
    assert [outcome for _, outcome in result.outcomes] == [Rehearsed("synthetic"), Rehearsed("live"), Rehearsed("live")]
    assert not result.failed
    assert (result.rehearsed, result.kinds, result.reason) == (3, "live,synthetic", "")


def test_one_query_that_cannot_be_rehearsed_fails_the_round_and_hides_no_other() -> None:
    result = played(
        {"a": Rehearsal("live"), "b": Rehearsal("", error=JavaError()), "c": Rehearsal("", error=KeyError("x"))},
        budget(),
    )
    assert result.failed
    assert (result.rehearsed, result.kinds) == (1, "live")
    assert result.reason == "b: it is not there; c: 'x'"


def test_an_error_that_is_no_exception_of_an_ordinary_kind_is_an_outcome_too() -> None:
    result = played({"a": Rehearsal("", error=SystemExit(1))}, budget())
    assert dict(result.outcomes) == {"a": NotRehearsed("1")}


def test_rows_count_where_the_users_sources_are_read_and_bytes_everywhere() -> None:
    for how, rows in (("live", 9), ("throwaway", 9), ("synthetic", 0), ("plan", 0)):
        spent = budget()
        played({"a": Rehearsal(how, rows=9)}, spent)
        assert spent.pause() == rows, how
    spent = budget()
    played({"a": Rehearsal("synthetic", rows=9, bytes_read=11)}, spent)
    assert spent.pause() == 11


def test_what_a_failed_rehearsal_has_read_is_spent() -> None:
    spent = budget()
    played({"a": Rehearsal("live", bytes_read=11, error=KeyError("x"))}, spent)
    assert spent.pause() == 11


def test_queries_are_rehearsed_at_the_same_time_as_in_a_takeover() -> None:
    together = threading.Barrier(2, timeout=10.0)
    queries: Any = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]

    def rehearsal_of(_: int, __: Any) -> Rehearsal:
        together.wait()
        return Rehearsal("live")

    assert not run_round(queries, rehearsal_of, budget()).failed
