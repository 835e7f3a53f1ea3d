"""Queries of a takeover begin when it is their turn; without a JVM. When that is: ``StartPaceTest``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from understudy.driver.query_launcher import QueryLauncher


class Query:
    """What the launcher asks of a pending query, and what it notes there."""

    def __init__(self, name: str, done: list[str], *, fails: bool = False) -> None:
        self.name = name
        self.query: Any = None
        self.error: BaseException | None = None
        self.snapshot = self.session = None
        self.starts = False
        self.no_boundary = ""
        self.checkpoint = f"file:/checkpoints/{name}"
        self._done = done
        self._fails = fails
        self.registered = self.begun = SimpleNamespace(set=lambda: None)

    def count_ungated(self, fence: object) -> None: ...

    def excludes(self, other: Query) -> bool:
        return self.name[0] == other.name[0]

    def begin(self) -> Any:
        self._done.append(f"begins {self.name}")
        if self._fails:
            raise ValueError(self.name)
        return SimpleNamespace(_jsq=self.name)


class Pace:
    """Notes what it is asked and told."""

    def __init__(self, done: list[str], broken: BaseException | None = None) -> None:
        self._done = done
        self._broken = broken

    def _note(self, what: str) -> None:
        if self._broken is not None:
            raise self._broken
        self._done.append(what)

    def awaitTurn(self) -> None:  # noqa: N802 - Java's
        self._note("turn")

    def begun(self, query: str, root: str) -> None:
        self._note(f"begun {query} in {root}")

    def failed(self) -> None:
        self._note("failed")

    def end(self) -> None:
        self._note("end")


def launcher(pace: Pace | None) -> QueryLauncher:
    def start_pace(queries: int) -> Pace | None:
        assert queries > 1, "one waits for no other"
        return pace

    @contextmanager
    def settings_of(*_: object) -> Iterator[None]:
        yield

    parts: dict[str, Any] = {
        "fence": SimpleNamespace(start_pace=start_pace),
        "claims": SimpleNamespace(claim=lambda _: None),
        "roots": SimpleNamespace(hold=lambda query: [query.name]),
        "stale_snapshot": SimpleNamespace(report_stale=lambda _: None),
    }
    made = QueryLauncher(**parts)
    made.settings = SimpleNamespace(of=settings_of)  # type: ignore[assignment]
    return made


def start(pace: Pace | None, queries: list[Query]) -> list[str]:
    """The names of those that have started."""
    started: list[str] = []
    begins: Any = launcher(pace).claim_and_start
    begins(queries, lambda: None, lambda query: started.append(query.name))
    return sorted(started)


def test_each_query_begins_in_its_turn_and_the_last_ends_the_turns() -> None:
    done: list[str] = []
    assert start(Pace(done), [Query("a", done), Query("b", done, fails=True), Query("c", done)]) == ["a", "c"]
    told = ["begun a in /checkpoints/a", "failed", "begun c in /checkpoints/c"]
    assert sorted(done) == sorted([*["turn"] * 3, "begins a", "begins b", "begins c", *told, "end"])
    turns = [at for at, what in enumerate(done) if what == "turn"]
    begins = [done.index(f"begins {name}") for name in "abc"]
    assert all(turn < begun for turn, begun in zip(turns, begins, strict=True))
    assert max(turns) < done.index("end")


def test_a_query_that_is_started_while_others_wait_for_their_turns_changes_nothing_of_them() -> None:
    done: list[str] = []
    waits, goes_on = threading.Event(), threading.Event()

    class Slow(Pace):
        def awaitTurn(self) -> None:  # noqa: N802 - Java's
            super().awaitTurn()
            waits.set()
            goes_on.wait(10.0)

        def awaitOver(self) -> None:  # noqa: N802 - Java's
            self._note("over")

    made = launcher(Slow(done))
    queries: Any = [Query("a", done), Query("b", done)]
    takeover = threading.Thread(target=made.claim_and_start, args=(queries,))
    takeover.start()
    assert waits.wait(10.0)
    alone: Any = [Query("z", done)]
    made.claim_and_start(alone)
    goes_on.set()
    takeover.join(10.0)
    assert "begun z in /checkpoints/z" not in done
    assert {"begun a in /checkpoints/a", "begun b in /checkpoints/b", "end"} <= set(done)
    made.await_first_batches()
    assert done[-1] == "over"


def test_queries_that_exclude_each_other_have_one_turn() -> None:
    done: list[str] = []
    start(Pace(done), [Query("a1", done, fails=True), Query("a2", done), Query("b", done)])
    assert done.count("turn") == 2
    assert done.index("begins a1") < done.index("begins a2") < done.index("begun a2 in /checkpoints/a2")


@pytest.mark.parametrize("names", ["a", "ab"])
def test_queries_that_may_begin_at_once_do(names: str) -> None:
    done: list[str] = []
    start(None, [Query(name, done) for name in names])
    assert sorted(done) == [f"begins {name}" for name in names]


def test_a_query_whose_batches_do_not_end_is_not_waited_for() -> None:
    done: list[str] = []
    queries = [Query("a", done), Query("b", done)]
    queries[0].no_boundary = "runs without an end between its batches"
    start(Pace(done), queries)
    assert sorted(done) == ["begins a", "begins b"]


def test_queries_begin_although_the_jvm_does_not_answer() -> None:
    done: list[str] = []
    queries = [Query(name, done) for name in "ab"]
    assert start(Pace(done, broken=Py4JNetworkError("gone")), queries) == ["a", "b"]
    assert sorted(done) == ["begins a", "begins b"]
