"""How long a leader that is told to stop has reason to wait for the user's code that runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from understudy.clock import instant
from understudy.driver.gate_client import DurationHistory, GateClient
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
