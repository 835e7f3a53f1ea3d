"""What a grant does, in which order, and to which queries; without a JVM. With one: ``tests/spark``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.driver.handed_over import HandedOver
from understudy.driver.query_launcher import start_order
from understudy.driver.rehearsed_code import RehearsedThreads
from understudy.driver.stale_snapshot import StaleSnapshotReporter
from understudy.driver.takeover import Takeover
from understudy.protocol.gate import State
from understudy.protocol.messages import Granted, Message, StaleSnapshot, Started, Starting


def declared(name: str) -> Any:
    return SimpleNamespace(name=name, error=None, told=False)


class Parts:
    """A takeover whose parts note what is asked of them, in order."""

    def __init__(self, *, waited: bool = True, executors: int = 0) -> None:
        self.done: list[str] = []
        self.standing = State.STANDBY
        self.queries: list[Any] = []
        self.looks = threading.Event()  # for the first commit
        self.first_batches = threading.Event()
        self.ended = threading.Event()
        self.stale = StaleSnapshotReporter(self.send)
        self.handed_over = HandedOver(restart=self.note("restart"))
        parts: dict[str, Any] = {
            "gate_client": SimpleNamespace(
                standing=lambda: self.standing,
                nudge=self.note("nudge"),
                close_for_good=self.note("close"),
                rehearsed=RehearsedThreads(self.handed_over),
            ),
            "rehearsals": SimpleNamespace(cancel=self.note("cancel"), let_go=self.note("let go"), waited=waited),
            "registry": SimpleNamespace(add=self.queries.append, queries=lambda: list(self.queries)),
            "claims": SimpleNamespace(granted=self.note("granted"), reclaim=self.note("reclaim")),
            "launcher": SimpleNamespace(claim_and_start=self.start, await_first_batches=self.first_batches.wait),
            "recovery": SimpleNamespace(
                follow=lambda query: self.done.append(f"follow {query.name}"),
                report_ended=lambda queries: self.done.append(f"ended {len(queries)}"),
                query_count=SimpleNamespace(changed=self.count),
            ),
            "first_commit": SimpleNamespace(report=lambda _: self.looks.set()),
        }
        self.takeover = Takeover(
            **parts, stale_snapshot=self.stale, send=self.send, end=self.note("end"), executors=executors
        )

    def note(self, what: str) -> Any:
        return lambda *_: self.done.append(what)

    def count(self) -> None:
        self.done.append("count")
        self.ended.set()

    def start(self, queries: list[Any], ready: Callable[[], None], started: Callable[[Any], None]) -> float:
        ready()
        assert self.looks.wait(10.0), "the first commit may come before the last query has begun"
        for query in queries:
            self.done.append(f"start {query.name}")
            started(query)
        return 0.25

    def send(self, message: Message) -> None:
        match message:
            case Starting(queries):
                self.done.append(f"starting {queries}")
            case Started(queries, claimed, _):
                self.done.append(f"started {queries} {claimed}")
            case other:
                self.done.append(type(other).__name__)


def test_a_grant_cancels_rehearsals_first_and_starts_every_query_that_waited() -> None:
    parts = Parts()
    queries = [declared("a"), declared("b")]
    assert [parts.takeover.awaits(query) for query in queries] == [True, True]
    parts.takeover.granted(Granted(1))
    assert parts.ended.wait(10.0)
    begun = ["start a", "follow a", "start b", "follow b"]
    assert parts.done == ["granted", "cancel", "nudge", "starting 2", "let go", *begun, "started 2 0.25", "count"]


def test_a_grant_starts_nothing_where_a_thread_may_hold_what_is_a_rehearsals() -> None:
    parts = Parts()
    parts.takeover.awaits(declared("a"))
    parts.handed_over.called = True
    writer = threading.Thread(target=parts.handed_over.suspects, args=("job.py:7",))
    writer.start()
    writer.join()
    parts.takeover.granted(Granted(1))
    assert parts.done == ["granted", "cancel", "nudge", "restart"]


def test_a_grant_without_queries_starts_nothing() -> None:
    parts = Parts()
    parts.takeover.granted(Granted(1))
    assert parts.done == ["granted", "cancel", "nudge"]


def test_a_query_that_is_declared_after_the_grant_does_not_wait_for_it_though_the_gate_opens_later() -> None:
    parts = Parts()
    parts.takeover.granted(Granted(1))
    assert parts.standing is State.STANDBY
    assert not parts.takeover.awaits("late")  # type: ignore[arg-type]
    assert parts.queries == []


@pytest.mark.parametrize("standing", [State.OPEN, State.CLOSED, State.REVOKED])
def test_a_driver_that_leads_or_led_lets_no_query_wait_for_a_grant(standing: State) -> None:
    parts = Parts()
    parts.standing = standing
    assert not parts.takeover.awaits("mine")  # type: ignore[arg-type]


def test_a_second_grant_claims_again_and_starts_nothing_twice() -> None:
    parts = Parts()
    parts.takeover.awaits(declared("a"))
    parts.takeover.granted(Granted(1))
    assert parts.ended.wait(10.0)
    parts.done.clear()
    parts.takeover.granted(Granted(1))
    assert parts.done == ["granted", "cancel", "nudge", "reclaim"]


def test_a_revoked_driver_rehearses_nothing_and_lets_nothing_wait() -> None:
    parts = Parts()
    parts.takeover.revoked()
    assert parts.done == ["cancel", "close"]


GONE = RuntimeError("[PATH_NOT_FOUND] Path does not exist: file:/dim")


class TestStaleSnapshot:
    def test_is_reported_once_between_a_takeover_and_its_first_commit(self) -> None:
        sent: list[Message] = []
        reporter = StaleSnapshotReporter(sent.append)
        reporter.report_stale(GONE)
        assert sent == [], "no takeover yet"
        reporter.takeover_begins(waited=True)
        reporter.report_stale(RuntimeError("division by zero"))
        assert sent == [], "a script that begins now would meet it too"
        reporter.report_stale(GONE)
        reporter.report_stale(GONE)
        assert sent == [StaleSnapshot(f"a file or table is missing: RuntimeError: {GONE}")]

    def test_is_not_reported_once_first_batches_are_over_and_one_has_committed(self) -> None:
        sent: list[Message] = []
        reporter = StaleSnapshotReporter(sent.append)
        reporter.takeover_begins(waited=True)
        reporter.first_batches_over()
        reporter.committed()
        reporter.report_stale(GONE)
        assert sent == []

    @pytest.mark.parametrize("so_far", [StaleSnapshotReporter.first_batches_over, StaleSnapshotReporter.committed])
    def test_is_reported_of_a_first_batch_after_the_first_commit_and_before_it(
        self, so_far: Callable[[StaleSnapshotReporter], None]
    ) -> None:
        sent: list[Message] = []
        reporter = StaleSnapshotReporter(sent.append)
        reporter.takeover_begins(waited=True)
        so_far(reporter)
        reporter.report_stale(GONE)
        assert len(sent) == 1

    def test_is_not_reported_after_the_first_commit_of_a_script_without_queries_at_the_grant(self) -> None:
        parts = Parts()
        parts.takeover.granted(Granted(1))
        parts.stale.committed()
        parts.stale.report_stale(GONE)
        assert "StaleSnapshot" not in parts.done

    def test_is_reported_of_the_last_query_whose_first_batch_comes_when_others_have_committed(self) -> None:
        parts = Parts()
        parts.queries += [declared("a"), declared("b")]
        parts.takeover.granted(Granted(1))
        assert parts.takeover.settled(10.0)
        parts.stale.committed()
        parts.stale.report_stale(GONE)
        assert "StaleSnapshot" in parts.done
        assert "ended 2" not in parts.done
        parts.first_batches.set()
        while "ended 2" not in parts.done:
            time.sleep(0.01)

    def test_is_not_reported_of_a_script_that_waited_for_nothing(self) -> None:
        parts = Parts(waited=False)
        parts.takeover.granted(Granted(1))
        parts.stale.report_stale(GONE)
        assert "StaleSnapshot" not in parts.done


class Named:
    """Excludes those that share a letter with it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def excludes(self, other: Named) -> bool:
        return bool(set(self.name) & set(other.name))


@pytest.mark.parametrize(
    ("queries", "groups"),
    [
        ("", []),
        ("a b c", ["a", "b", "c"]),
        ("a a b", ["a a", "b"]),
        ("a b a", ["b", "a a"]),
        ("a b ab", ["a b ab"]),
        ("a b c bc", ["a", "b c bc"]),
        ("ab b a", ["ab b a"]),
    ],
)
def test_queries_that_exclude_each_other_start_in_the_scripts_order_and_others_concurrently(
    queries: str, groups: list[str]
) -> None:
    found = start_order([Named(name) for name in queries.split()])  # type: ignore[misc]
    assert [" ".join(query.name for query in group) for group in found] == groups
