"""How long a leader that is told to stop has reason to wait for the user's code that runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.clock import instant
from understudy.driver.gate_client import DurationHistory, GateClient
from understudy.driver.rehearsed_code import BatchFunctions
from understudy.driver.spark_patches.queries import replace_for_each
from understudy.driver.spark_patches.targets import STREAM_WRITER
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateWriter
from understudy.protocol.gate import State, View
from understudy.protocol.token import Token

HOUR = 3600.0


@pytest.fixture
def gate_client(tmp_path: Path) -> GateClient:
    """Of a leader whose gate stays open."""
    now = instant()
    GateWriter(tmp_path / "gate").publish(View(State.OPEN, Token(1, 1), now.plus(HOUR), now.plus(HOUR), now.plus(HOUR)))
    Activity(tmp_path / "gate.activity", create=True)
    return GateClient(tmp_path / "gate", tmp_path / "job.py", lambda _: None)


def taking(*seconds: float) -> DurationHistory:
    history = DurationHistory()
    history.took.extend(seconds)
    return history


@pytest.mark.parametrize(
    ("took", "within", "may"),
    [
        ((HOUR, HOUR, HOUR), 60.0, False),
        ((HOUR, HOUR, HOUR), 2 * HOUR, True),
        ((0.0, HOUR, 0.0), 60.0, True),
        ((HOUR, HOUR), 60.0, True),
    ],
    ids=["usually longer", "usually shorter", "once longer", "hardly known"],
)
def test_code_may_end_in_time_unless_it_usually_takes_longer(
    gate_client: GateClient, took: tuple[float, ...], within: float, may: bool
) -> None:
    with gate_client.user_code(taking(*took)):
        assert gate_client.may_end_by(time.monotonic() + within) is may


def test_a_writer_in_a_function_ends_no_sooner_than_the_function(gate_client: GateClient) -> None:
    with gate_client.user_code(taking(HOUR, HOUR, HOUR)), gate_client.user_code():
        assert not gate_client.may_end_by(time.monotonic() + 60.0)


def test_code_on_executors_may_end_at_any_time_beside_a_function_that_will_not(gate_client: GateClient) -> None:
    gate_client.occupy()

    with gate_client.user_code(taking(HOUR, HOUR, HOUR)):
        assert gate_client.may_end_by(time.monotonic() + 60.0)


def test_a_function_becomes_known_by_being_run(gate_client: GateClient) -> None:
    history = DurationHistory()
    for _ in range(7):
        with gate_client.user_code(history):
            pass

    assert len(history.took) == 5


def test_a_writer_is_asked_for_its_fence_at_the_open_gate_and_before_it_writes(gate_client: GateClient) -> None:
    seen: list[object] = []

    class Writer:
        def save(self) -> None:
            seen.append("written")

    def check(target: object) -> None:
        assert gate_client.user_code_runs
        seen.append(target)

    gate_client.check = check
    writer = Writer()
    gate_client.gated(Writer.save)(writer)
    assert seen == [writer, "written"]


def test_code_that_is_held_begins_when_it_is_let_go(gate_client: GateClient) -> None:
    began = threading.Event()

    def write() -> None:
        with gate_client.user_code():
            began.set()

    gate_client.hold()
    writer = threading.Thread(target=write)
    writer.start()
    assert not began.wait(0.3)
    assert not gate_client.writes, "what waits does not count"
    gate_client.let_go()
    assert began.wait(30.0)
    writer.join()


def test_code_that_writes_already_is_not_held_and_neither_is_what_it_waits_for(gate_client: GateClient) -> None:
    def write() -> None:
        with gate_client.user_code():
            pass

    with gate_client.user_code():
        gate_client.hold()
        with gate_client.user_code():
            assert gate_client.writes
        helper = threading.Thread(target=write)
        helper.start()
        helper.join(30.0)
        assert not helper.is_alive()


def test_the_line_that_writes_is_named(tmp_path: Path, gate_client: GateClient) -> None:
    script = tmp_path / "job.py"
    script.write_text("def write(gate_client, look):\n    with gate_client.user_code():\n        look()\n")
    made: dict[str, Any] = {}
    exec(compile(script.read_text(), str(script), "exec"), made)
    seen: list[str] = []
    made["write"](gate_client, lambda: seen.extend(gate_client.lines_that_run()))
    assert seen == ["job.py:3"]


def test_the_function_of_a_batch_that_has_begun_is_not_held(gate_client: GateClient) -> None:
    """Its offsets are written: held now, the batch that everything waits for would never end."""
    gate_client.hold()
    with gate_client.user_code(of_a_batch=True):
        assert gate_client.writes
        with gate_client.user_code():  # a writer within it
            pass


def test_a_foreach_batch_function_of_a_script_is_such_a_function(gate_client: GateClient) -> None:
    made: dict[str, Any] = {}
    patches: Any = SimpleNamespace(replace=made.__setitem__)
    replace_for_each(patches, gate_client, BatchFunctions(gate_client.rehearsed, print, every=False))
    ran: list[int] = []
    behind_the_gate = made[f"{STREAM_WRITER}.foreachBatch"](lambda _, func: func)(
        type("Writer", (), {})(), lambda _, batch: ran.append(batch)
    )
    gate_client.hold()
    batch = threading.Thread(target=behind_the_gate, args=(None, 7), daemon=True)
    batch.start()
    batch.join(10.0)
    assert ran == [7]
