"""Functions that the user lets rehearse: which are called, in which threads that counts, and what ends their rehearsal."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import understudy
from understudy.clock import instant
from understudy.driver.driver_leadership import DriverLeadership
from understudy.driver.gate_client import GateClient
from understudy.driver.handed_over import HandedOver
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.rehearsed_code import BatchFunctions, RehearsalAbandoned, RehearsedFunction, RehearsedThreads
from understudy.driver.spark_patches import threads
from understudy.errors import LeadershipLost
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateWriter
from understudy.leadership import is_rehearsable
from understudy.protocol.gate import State, View
from understudy.protocol.token import Token


class Writer:
    _spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None))


class Writes:
    """The JVM's side."""

    def __init__(self) -> None:
        self.ended = False
        self.no = ""

    def cancelled(self) -> bool:
        return self.ended

    def over(self) -> bool:
        return self.ended or bool(self.no)

    def refused(self) -> str:
        return self.no


@pytest.fixture
def gate_client(tmp_path: Path) -> GateClient:
    """Of a leader: the code of a rehearsal that it has overtaken must not pass."""
    later = instant().plus(3600.0)
    GateWriter(tmp_path / "gate").publish(View(State.OPEN, Token(1, 1), later, later, later))
    Activity(tmp_path / "gate.activity", create=True)
    return GateClient(tmp_path / "gate", tmp_path / "job.py", lambda _: None)


def rehearse(gate_client: GateClient, function: Callable[..., None], *, writes: Any = None) -> tuple[bool, list[str]]:
    """Whether the function has run to its end, and what was reported."""
    said: list[str] = []
    rehearsed = RehearsedFunction(function, Writer(), gate_client.rehearsed, said.append)  # type: ignore[arg-type]
    rehearsed._function = SimpleNamespace(call=function)  # type: ignore[assignment] # without a session
    return rehearsed.call(None, 7, writes or Writes()), said


def test_only_what_is_marked_or_asked_for_is_rehearsed(gate_client: GateClient) -> None:
    def plain(frame: Any, number: int) -> None: ...

    marked, writer = understudy.rehearsable(plain), Writer()
    for function, every, expected in ((plain, False, False), (marked, False, True), (plain, True, True)):
        functions = BatchFunctions(gate_client.rehearsed, print, every=every)
        functions.declare(writer, function)  # type: ignore[arg-type]
        assert (functions.of(writer) is not None) is expected  # type: ignore[arg-type]
    functions = BatchFunctions(gate_client.rehearsed, print, every=True, calls=False)
    functions.declare(writer, marked)  # type: ignore[arg-type]
    assert not functions, "none is, once the script turned out to have one that must not be"
    functions = BatchFunctions(gate_client.rehearsed, print, every=False)
    functions.declare(writer, marked)  # type: ignore[arg-type]
    functions.declare(writer, plain)  # type: ignore[arg-type]
    assert functions.of(writer) is None, "the last function of a writer counts"  # type: ignore[arg-type]


def test_a_decorator_around_a_marked_function_is_not_marked() -> None:
    """It may have code of its own: and it was not said that this may run in rehearsals."""

    class Store:
        @understudy.rehearsable
        def store(self, frame: Any, number: int) -> None: ...

    @understudy.rehearsable
    def inner(frame: Any, number: int) -> None: ...

    @functools.wraps(inner)
    def outer(frame: Any, number: int) -> None:
        inner(frame, number)

    assert is_rehearsable(inner)
    assert is_rehearsable(Store().store)
    assert not is_rehearsable(outer)
    assert is_rehearsable(understudy.rehearsable(outer))


def test_a_query_keeps_the_function_that_its_writer_had_at_the_start(gate_client: GateClient) -> None:
    def first(frame: Any, number: int) -> None: ...

    def second(frame: Any, number: int) -> None: ...

    functions, writer, kept = BatchFunctions(gate_client.rehearsed, print, every=True), Writer(), Writer()
    functions.declare(writer, first)  # type: ignore[arg-type]
    functions.keep(writer, kept)  # type: ignore[arg-type]
    functions.declare(writer, second)  # type: ignore[arg-type]
    found = functions.of(kept)  # type: ignore[arg-type]
    assert found is not None
    assert found._name == first.__qualname__


def test_a_marked_function_is_called_as_before_and_keeps_its_name() -> None:
    @understudy.rehearsable
    def store(frame: str, number: int = 3) -> str:
        return f"{frame}{number}"

    assert (store("a"), store.__name__) == ("a3", "store")
    assert not understudy.current().rehearsing


def test_a_rehearsed_function_leads_nothing_though_its_replica_does(gate_client: GateClient) -> None:
    leadership, seen = DriverLeadership(gate_client), []

    def look(*_: Any) -> None:
        seen.append((leadership.rehearsing, leadership.leads, leadership.token, leadership.epoch))

    look()
    assert rehearse(gate_client, look) == (True, [])
    look()
    token = int(Token(1, 1))
    assert seen == [(False, True, token, 1), (True, False, 0, 0), (False, True, token, 1)]


@pytest.mark.parametrize("way", ["step", "user code", "gated", "waits", "queries", "stop"])
def test_what_only_a_leader_does_ends_a_rehearsal_also_under_an_open_gate(gate_client: GateClient, way: str) -> None:
    done: list[str] = []

    def step() -> None:
        with DriverLeadership(gate_client).step():
            done.append("step")

    def user_code() -> None:
        with gate_client.user_code():
            done.append("user code")

    ways: dict[str, Callable[[], Any]] = {
        "user code": user_code,
        "step": step,
        "gated": gate_client.gated(lambda: done.append("gated")),
        "waits": gate_client.pass_through,
        "queries": QueryRegistry(gate_client).wait_until_started,
        "stop": QueryRegistry(gate_client).context_stops,
    }

    def function(*_: Any) -> None:
        with suppress(Exception):  # as a script that retries
            ways[way]()
        done.append("went on")

    ended, said = rehearse(gate_client, function)
    assert (ended, done) == (False, [])
    assert len(said) == 1
    assert "was rehearsed up to" in said[0]


def test_an_error_is_reported_once_and_the_function_is_not_called_again(gate_client: GateClient) -> None:
    calls: list[int] = []
    said: list[str] = []

    def fails(_: Any, number: int) -> None:
        calls.append(number)
        raise ValueError("no")

    rehearsed = RehearsedFunction(fails, Writer(), gate_client.rehearsed, said.append)  # type: ignore[arg-type]
    rehearsed._function = SimpleNamespace(call=fails)  # type: ignore[assignment]
    assert [rehearsed.call(None, number, Writes()) for number in range(3)] == [False] * 3
    assert calls == [0]
    assert len(said) == 1
    assert said[0].endswith("fails failed, and is not rehearsed any more: ValueError: no")


def test_a_function_that_still_runs_after_a_pause_is_not_called_beside_itself(gate_client: GateClient) -> None:
    calls: list[int] = []

    def again(_: Any, number: int, writes: Any) -> None:
        calls.append(number)
        assert rehearsed.call(None, number + 1, writes) is False

    rehearsed = RehearsedFunction(print, Writer(), gate_client.rehearsed, print)  # type: ignore[arg-type]
    rehearsed._function = SimpleNamespace(call=lambda frame, number: again(frame, number, Writes()))  # type: ignore[assignment]
    assert rehearsed.call(None, 0, Writes()) is True
    assert calls == [0]


def test_what_fails_because_the_rehearsal_was_cancelled_is_no_error_of_the_function(gate_client: GateClient) -> None:
    writes = Writes()

    def interrupted(*_: Any) -> None:
        writes.ended = True
        raise ValueError("a job was cancelled")

    assert rehearse(gate_client, interrupted, writes=writes) == (False, [])


def test_threads_of_a_rehearsed_function_rehearse_until_they_end(gate_client: GateClient) -> None:
    patched: dict[str, Any] = {}
    threads.install(SimpleNamespace(replace=patched.__setitem__), gate_client.rehearsed)  # type: ignore[arg-type]
    start = patched["threading:Thread.start"](threading.Thread.start)
    submit = patched["concurrent.futures.thread:ThreadPoolExecutor.submit"](ThreadPoolExecutor.submit)
    returned, seen = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # its thread has begun before

        def late() -> None:
            returned.wait(10.0)
            seen.append(gate_client.rehearsed.here)

        started: list[threading.Thread] = []

        def function(*_: Any) -> None:
            started.append(threading.Thread(target=late))
            start(started[0])
            seen.append(submit(pool, lambda: gate_client.rehearsed.here).result())

        assert rehearse(gate_client, function) == (True, [])
        returned.set()
        started[0].join()
        seen.append(submit(pool, lambda: gate_client.rehearsed.here).result())
    assert seen == [True, True, False]


def test_a_pools_thread_that_began_in_a_rehearsal_belongs_to_no_rehearsal(
    gate_client: GateClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves the leader later, too."""
    patched: dict[str, Any] = {}
    threads.install(SimpleNamespace(replace=patched.__setitem__), gate_client.rehearsed)  # type: ignore[arg-type]
    monkeypatch.setattr(threading.Thread, "start", patched["threading:Thread.start"](threading.Thread.start))
    submit = patched["concurrent.futures.thread:ThreadPoolExecutor.submit"](ThreadPoolExecutor.submit)
    seen: list[bool] = []
    with ThreadPoolExecutor(1) as pool:

        def function(*_: Any) -> None:
            seen.append(submit(pool, lambda: gate_client.rehearsed.here).result())
            seen.append(gate_client.rehearsed.here)

        assert rehearse(gate_client, function) == (True, [])
        seen.append(submit(pool, lambda: gate_client.rehearsed.here).result())
    assert seen == [True, True, False]


def test_an_abandoned_rehearsal_is_no_exception_that_a_script_may_swallow() -> None:
    assert not issubclass(RehearsalAbandoned, Exception)


class TestAThreadThatWasThereBefore:
    """It may hold what a rehearsed function gave it: through a queue, of which the gate knows nothing."""

    @pytest.fixture
    def writer(self, tmp_path: Path) -> GateWriter:
        Activity(tmp_path / "gate.activity", create=True)
        made = GateWriter(tmp_path / "gate")
        made.publish(View(State.STANDBY, Token(0, 0)))
        return made

    @pytest.fixture
    def said(self) -> list[str]:
        return []

    @pytest.fixture
    def standby(self, tmp_path: Path, writer: GateWriter, said: list[str]) -> GateClient:
        handed_over = HandedOver(lambda _: said.append("advice"), lambda _: said.append("restart"))
        rehearsed = RehearsedThreads(handed_over)
        return GateClient(tmp_path / "gate", tmp_path / "job.py", lambda _: None, rehearsed=rehearsed)

    @staticmethod
    def grant(writer: GateWriter) -> None:
        writer.publish(View(State.OPEN, Token(1, 1), *[instant().plus(3600.0)] * 3))

    def writes(self, standby: GateClient, done: list[str]) -> threading.Thread:
        def write() -> None:
            with suppress(LeadershipLost), standby.user_code():
                done.append("written")

        thread = threading.Thread(target=write)
        thread.start()
        while not standby.held and thread.is_alive():
            time.sleep(0.001)
        return thread

    def test_never_writes_what_it_first_tried_to_after_a_rehearsal(
        self, standby: GateClient, writer: GateWriter, said: list[str]
    ) -> None:
        done: list[str] = []
        assert rehearse(standby, lambda *_: None) == (True, [])
        thread = self.writes(standby, done)
        while not said:
            time.sleep(0.001)
        assert rehearse(standby, lambda *_: done.append("called")) == (False, []), "no function is called any more"
        self.grant(writer)
        thread.join(0.2)
        assert (done, said, thread.is_alive()) == ([], ["advice", "restart"], True)
        assert standby.rehearsed.handed_over.reason
        standby.close_for_good()
        thread.join(10.0)
        assert done == []

    def test_writes_at_the_grant_what_it_waited_with_before_the_first_rehearsal(
        self, standby: GateClient, writer: GateWriter, said: list[str]
    ) -> None:
        done: list[str] = []
        thread = self.writes(standby, done)
        assert rehearse(standby, lambda *_: None) == (True, [])
        self.grant(writer)
        thread.join(10.0)
        assert (done, said) == (["written"], [])

    def test_may_ask_of_queries_what_waits_for_the_grant(
        self, standby: GateClient, writer: GateWriter, said: list[str]
    ) -> None:
        assert rehearse(standby, lambda *_: None) == (True, [])
        thread = threading.Thread(target=standby.pass_through)
        thread.start()
        self.grant(writer)
        thread.join(10.0)
        assert (thread.is_alive(), said) == (False, [])
