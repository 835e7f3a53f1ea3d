"""When a warm-up ends. What its rounds do, only a JVM can tell: tests/spark."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.driver.rehearsal_schedule import Policy
from understudy.driver.warm_up import WarmUp, _BrokenOff


class Made:
    """What the JVM would make, which has written to scratch by then."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_one_that_was_broken_off_while_it_was_made_is_closed_and_plays_no_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warm_up, made = WarmUp(Policy(rounds=32, every=30.0), "scratch", report=lambda: None), Made()

    def new(_: Any) -> Made:
        warm_up.pause(60.0)
        return made

    monkeypatch.setattr(warm_up, "_new", new)
    session: Any = None
    with pytest.raises(_BrokenOff):
        warm_up._round(session)
    assert made.closed
