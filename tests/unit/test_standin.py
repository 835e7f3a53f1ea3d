"""What a script hears of a query whose place another start of it has taken while it asked."""

from __future__ import annotations

from typing import Any

from understudy.driver.standin import StandIn


class Query:
    """A real one's answers to a question that takes so long that another start may take its place meanwhile."""

    def __init__(self, answer: bool | None) -> None:
        self.answer, self.asked = answer, 0

    def awaitTermination(self, _: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        self.asked += 1
        return self.answer


def standing_in_for(*queries: Query) -> StandIn:
    """Each look finds the next one, and the last one from then on."""
    left: list[Any] = list(queries)
    return StandIn("q", lambda: "id", lambda: left.pop(0) if len(left) > 1 else left[0], lambda _: False)


def test_the_end_of_a_query_that_was_started_again_is_not_told() -> None:
    first, second = Query(None), Query(None)
    assert standing_in_for(first, second).awaitTermination() is None
    assert (first.asked, second.asked) == (1, 1)


def test_a_time_out_that_has_passed_is_not_begun_again() -> None:
    first, second = Query(False), Query(False)
    assert standing_in_for(first, second).awaitTermination(5) is False
    assert (first.asked, second.asked) == (1, 0)
