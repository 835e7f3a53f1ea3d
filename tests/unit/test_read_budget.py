"""How much rehearsals read."""

from __future__ import annotations

import pytest

from understudy.driver.read_budget import ReadBudget


class Hands:
    at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize(("rows", "byte"), [(500, 0), (0, 5000), (500, 5000), (100, 5000)])
def test_what_was_read_is_waited_for(rows: int, byte: int) -> None:
    clock = Hands()
    budget = ReadBudget(1000, 10_000, clock)
    assert budget.pause() == 0.0
    budget.spend(rows, byte)
    assert budget.pause() == 1800.0
    clock.at += 1799.0
    assert budget.pause() == 1.0
    clock.at += 10.0
    assert budget.pause() == 0.0
    budget.spend(rows, byte)
    assert budget.pause() == 1791.0


def test_in_any_long_time_the_average_is_below_the_limit() -> None:
    clock = Hands()
    budget, read = ReadBudget(1000, 10**9, clock), 0
    while clock.at < 100.0 + 10 * 3600:
        budget.spend(70, 10)
        read += 70
        clock.at += max(30.0, budget.pause())
    assert 9_900 <= read <= 10_000 + 70
