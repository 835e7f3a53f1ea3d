"""What a loss does to the driver behind the gate, and when that driver is overdue; with hands on the clocks."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.clock import Instant
from understudy.config.timings import PROFILES
from understudy.election.commands import Grant
from understudy.protocol.gate import State, View
from understudy.protocol.token import NONE, Token
from understudy.supervisor.deadline_guard import DeadlineGuard, open_view

FAST = PROFILES["fast"]


class Driver:
    """Behind a gate that stands as it was shown last."""

    def __init__(self, state: State) -> None:
        self.gate: Any = self
        self.view = View(state, NONE)
        self.killed = ""

    def show(self, view: View) -> None:
        self.view = view

    def send(self, message: object) -> None: ...

    def kill_now(self, reason: str) -> None:
        self.killed = reason


class Hands:
    at = 1000.0

    def __call__(self) -> Instant:
        return Instant(int(self.at * 1e9), int(self.at * 1e9))


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED])
def test_a_driver_that_could_write_is_killed_with_the_loss_whatever_its_replica_was_about_to_do(state: State) -> None:
    """Also while it hands over, when the replica does not count as the leader any more."""
    guard, driver = DeadlineGuard(FAST), Driver(state)
    guard.driver = driver
    guard.lost("another holds the lock", leads=False)
    assert (driver.view.state, driver.killed) == (State.REVOKED, "another holds the lock")


def test_a_standby_s_driver_outlives_a_loss() -> None:
    guard, driver = DeadlineGuard(FAST), Driver(State.STANDBY)
    guard.driver = driver
    guard.lost("another holds the lock", leads=False)
    assert (driver.view.state, driver.killed) == (State.STANDBY, "")


def test_a_driver_is_overdue_from_the_moment_at_which_what_writes_behind_it_has_to_be_dead() -> None:
    hands = Hands()
    guard, driver = DeadlineGuard(FAST, hands), Driver(State.STANDBY)
    guard.driver = driver
    guard.granted(Grant(1, "me", "1", hands.at))
    guard.renewed(hands.at)
    assert not guard.overdue, "a standby's has no deadline"
    driver.view = open_view(Token(1, 1), hands.at, FAST, hands())
    hands.at += FAST.kill_after - 0.1
    early = guard.overdue
    hands.at += 0.2
    assert (early, guard.overdue) == (False, True)
