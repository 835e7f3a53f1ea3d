"""The timer that kills without the event loop, with a real gate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from understudy.clock import Instant, instant
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateWriter
from understudy.protocol.gate import State, View
from understudy.protocol.token import Token
from understudy.supervisor.kill_timer import KillTimer


def past_kill_deadline() -> View:
    now = instant()
    return View(State.OPEN, Token(1, 1), now.plus(-2), now.plus(-1), now.plus(600))


def run(tmp_path: Path, view: View, running: int) -> tuple[KillTimer, threading.Event, list[str]]:
    gate = GateWriter(tmp_path / "gate")
    activity = Activity(tmp_path / "activity", create=True)
    activity.set(running)
    gate.publish(view)
    killed, reasons = threading.Event(), list[str]()

    def kill(reason: str) -> None:
        reasons.append(reason)
        killed.set()

    return KillTimer(gate, activity, kill), killed, reasons


def test_user_code_that_runs_past_the_kill_deadline_is_killed(tmp_path: Path) -> None:
    timer, killed, reasons = run(tmp_path, past_kill_deadline(), 1)
    assert killed.wait(20)
    timer.stop()
    assert reasons == ["user code was running when the lease could not be renewed"]


def test_a_parked_driver_stays_warm_past_the_kill_deadline(tmp_path: Path) -> None:
    timer, killed, _ = run(tmp_path, past_kill_deadline(), 0)
    assert not killed.wait(0.3)
    timer.stop()


def test_a_parked_driver_is_killed_when_grace_ends(tmp_path: Path) -> None:
    now = instant()
    timer, killed, _ = run(tmp_path, View(State.OPEN, Token(1, 1), now.plus(-3), now.plus(-2), now.plus(-1)), 0)
    assert killed.wait(20)
    timer.stop()


def test_a_standby_is_never_killed_by_the_timer(tmp_path: Path) -> None:
    past: Callable[[int], Instant] = lambda seconds: instant().plus(-seconds)  # noqa: E731
    timer, killed, _ = run(tmp_path, View(State.STANDBY, Token(0, 0), past(3), past(2), past(1)), 1)
    assert not killed.wait(0.3)
    timer.stop()
