"""Which questions about queries wait, and for what; with a real gate. What Spark answers, ``tests/spark`` asks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.clock import instant
from understudy.driver.gate_client import GateClient
from understudy.driver.query_count import Queries, QueryCount
from understudy.driver.query_registry import QueryRegistry
from understudy.errors import ScriptProblem
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateWriter
from understudy.protocol.gate import State, View
from understudy.protocol.token import NONE, Token

HOUR = 3600.0
TEN_SECONDS = 10.0


class Gate:
    """Of a standby, until it is opened."""

    def __init__(self, home: Path) -> None:
        self._page = GateWriter(home / "gate")
        self._page.publish(View(State.STANDBY, NONE))
        Activity(home / "gate.activity", create=True)
        self.held: queue.Queue[str] = queue.Queue()
        self.gate_client = GateClient(home / "gate", home / "job.py", self.held.put)
        self.all_may_begin = threading.Event()
        self.registry = QueryRegistry(self.gate_client, self.all_may_begin.set)

    def open(self) -> None:
        now = instant()
        self._page.publish(View(State.OPEN, Token(1, 1), now.plus(HOUR), now.plus(HOUR), now.plus(HOUR)))


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


class Query:
    """As much of a deferred query as the registry asks for. ``ids``: what its checkpoint says at each look."""

    def __init__(self, *ids: str | None, view: str | None = None) -> None:
        self.ids = list(ids)
        self.registered, self.begun = threading.Event(), threading.Event()
        self.query: Any = None
        self.error: Exception | None = None
        self.starts = self.told = False
        self.name = "mine"
        self.checkpoint = "file:/checkpoint"
        self.view = view

    def kept_id(self) -> str | None:
        return self.ids.pop(0) if self.ids else None

    def shows_in(self, view: str) -> bool:
        return view == self.view

    def is_run_by(self, java_query: Any) -> bool:
        return java_query is self.java

    @property
    def java(self) -> Any:
        return self.session._jsparkSession.streams().get("id")

    @property
    def session(self) -> Any:
        known = self.__dict__.setdefault("_known", SimpleNamespace(name="java"))
        return SimpleNamespace(
            _jsparkSession=SimpleNamespace(streams=lambda: SimpleNamespace(get=lambda _: known)),
        )


def asked(question: Any) -> queue.Queue[Any]:
    """What the question is answered with, in a thread of its own."""
    answers: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=lambda: answers.put(question()), daemon=True).start()
    return answers


def test_with_nothing_declared_a_standby_answers_as_spark_does(gate: Gate) -> None:
    gate.registry.wait_until_declared_started()
    assert gate.held.empty()
    assert not gate.gate_client.asked, "nothing was written, and nothing waits to be"


def test_with_a_query_declared_the_same_question_waits_for_its_start(gate: Gate) -> None:
    query: Any = Query()
    gate.registry.add(query)
    answer = asked(gate.registry.wait_until_declared_started)
    assert gate.held.get(timeout=TEN_SECONDS) == "job.py"
    gate.open()
    assert gate.held.get(timeout=TEN_SECONDS) == ""
    assert answer.empty()
    query.query = SimpleNamespace(id="1")
    query.registered.set()
    assert answer.get(timeout=TEN_SECONDS) is None


def test_an_id_that_stands_in_the_checkpoint_is_told_at_once(gate: Gate) -> None:
    query: Any = Query("kept")
    gate.registry.add(query)
    assert gate.registry.query_id(query) == "kept"
    assert gate.held.empty()


def test_an_id_that_the_leader_has_yet_to_write_is_waited_for_and_the_script_goes_on_as_a_standby(gate: Gate) -> None:
    query: Any = Query(None, None, "written")
    gate.registry.add(query)
    answer = asked(lambda: gate.registry.query_id(query))
    assert gate.held.get(timeout=TEN_SECONDS) == "job.py"
    assert answer.get(timeout=TEN_SECONDS) == "written"
    assert gate.held.get(timeout=TEN_SECONDS) == "", "it does not count as held any more"


def test_an_id_that_nothing_keeps_is_the_started_querys(gate: Gate) -> None:
    query: Any = Query()
    gate.registry.add(query)
    answer = asked(lambda: gate.registry.query_id(query))
    gate.held.get(timeout=TEN_SECONDS)
    gate.open()
    query.query = SimpleNamespace(id="drawn")
    query.registered.set()
    assert answer.get(timeout=TEN_SECONDS) == "drawn"


def test_a_listener_that_a_start_waits_for_gets_that_query_and_waits_for_no_other(gate: Gate) -> None:
    gate.open()
    starts: Any = Query()
    starts.starts = True
    later: Any = Query(view="board")
    for each in (starts, later):
        gate.registry.add(each)
    elsewhere = asked(lambda: gate.registry.wait_for_query(starts))
    with gate.registry.start_calls_back("id"):
        gate.registry.wait_until_started()
        assert gate.registry.wait_for_query(starts)._jsq is starts.java
        assert elsewhere.get(timeout=TEN_SECONDS)._jsq is starts.java, (
            "a thread that the listener waits for gets it too"
        )
        assert not gate.registry.await_view("board")
        with pytest.raises(ScriptProblem, match="starts when it has returned"):
            gate.registry.wait_for_query(later)
    assert not gate.registry.in_callback


def in_a_batch(gate: Gate, question: Callable[[], Any]) -> Any:
    def batch() -> Any:
        with gate.gate_client.user_code(of_a_batch=True):
            return question()

    return asked(batch).get(timeout=TEN_SECONDS)


@pytest.mark.parametrize("thread", ["the batch's", "one of its own"])
def test_a_query_that_a_batch_waits_for_does_not_wait_for_that_batch(gate: Gate, thread: str) -> None:
    gate.open()
    query: Any = Query()
    gate.registry.add(query)

    def begins() -> None:
        gate.all_may_begin.wait()
        query.query = "runs"
        query.registered.set()

    def question() -> Any:
        return gate.registry.wait_for_query(query)

    threading.Thread(target=begins, daemon=True).start()
    of_its_own = thread == "one of its own"
    assert in_a_batch(gate, (lambda: asked(question).get(timeout=TEN_SECONDS)) if of_its_own else question) == "runs"
    assert gate.all_may_begin.is_set()


def test_the_script_waits_for_its_queries_turns(gate: Gate) -> None:
    gate.open()
    query: Any = Query()
    gate.registry.add(query)
    with gate.gate_client.user_code(of_a_batch=True):
        pass  # a batch that is over
    threading.Timer(0.1, query.registered.set).start()
    query.query = "runs"
    running: Any = gate.registry.wait_for_query(query)
    assert running == "runs"
    assert not gate.all_may_begin.is_set()


def test_a_batch_that_drains_is_told_of_a_query_that_has_ended_and_the_script_is_not(gate: Gate) -> None:
    gate.open()
    ended: Any = Query()
    ended.query = SimpleNamespace(isActive=False)
    ended.registered.set()
    gate.registry.add(ended)
    gate.registry.drain()

    def batch() -> Any:
        script = asked(lambda: gate.registry.wait_for_query(ended))
        with pytest.raises(queue.Empty):
            script.get(timeout=0.3)
        return gate.registry.wait_for_query(ended)

    assert in_a_batch(gate, batch) is ended.query


def test_a_stop_waits_for_queries_that_have_not_begun_also_while_this_driver_leads(gate: Gate) -> None:
    gate.open()
    query: Any = Query()
    gate.registry.add(query)
    stops = asked(gate.registry.wait_before_stop)
    with pytest.raises(queue.Empty):
        stops.get(timeout=0.3)
    query.query = SimpleNamespace(isActive=True)
    query.registered.set()
    assert stops.get(timeout=TEN_SECONDS) is None


def test_a_stop_after_the_loss_of_leadership_waits_for_nothing(gate: Gate) -> None:
    """A script's handler of SIGTERM calls it, also on a standby."""
    gate.gate_client.close_for_good()
    query: Any = Query()
    gate.registry.add(query)
    assert asked(gate.registry.wait_before_stop).get(timeout=TEN_SECONDS) is None


def test_what_reads_a_memory_sinks_view_waits_until_spark_has_made_it(gate: Gate) -> None:
    board: Any = Query(view="board")
    gate.registry.add(board)
    assert not gate.registry.await_view("other")
    answer = asked(lambda: gate.registry.await_view("board"))
    gate.held.get(timeout=TEN_SECONDS)
    gate.open()
    board.query = SimpleNamespace(id="1")
    board.registered.set()
    with pytest.raises(queue.Empty):
        answer.get(timeout=0.2)
    board.begun.set()
    assert answer.get(timeout=TEN_SECONDS) is True


def test_more_queries_are_told_at_once_and_fewer_when_they_stay_away() -> None:
    now, told = [Queries(1)], queue.Queue[Queries]()
    count = QueryCount(lambda: now[0], told.put, ended_for=0.05)
    for each in (Queries(1), Queries(4), Queries(3)):
        now[0] = each
        count.changed()
        assert told.get(timeout=TEN_SECONDS) == each
    with pytest.raises(queue.Empty):
        told.get(timeout=0.2)


def test_a_query_that_dies_is_told_by_name_though_another_one_was_started_in_its_place() -> None:
    now, told = [Queries(2)], queue.Queue[Queries]()
    count = QueryCount(lambda: now[0], told.put, ended_for=0.05)
    count.changed()
    assert told.get(timeout=TEN_SECONDS) == Queries(2)
    now[0] = died = Queries(2, {"windows": "ValueError: no"})
    count.changed()
    assert told.get(timeout=TEN_SECONDS) == died
    now[0] = Queries(2)  # it was started again after all
    count.changed()
    assert told.get(timeout=TEN_SECONDS) == Queries(2)
