"""What the cluster tests ask of the epochs they have seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from e2e.harness.flights_deployment import Takeover, in_order

LED = [(1, "a"), (1, "a"), (2, "b"), (4, "a")]


def taken(*epochs: int) -> list[Takeover]:
    return [Takeover("jvm", 1.0, epoch, 0.0) for epoch in epochs]


def test_epochs_grow_with_their_holders_and_may_be_left_out() -> None:
    assert in_order(LED, taken(2, 4))
    assert in_order([], [])


@pytest.mark.parametrize(
    ("led", "takeovers"),
    [
        ([*LED, (3, "c")], taken(2, 4)),
        ([*LED, (4, "b")], taken(2, 4)),
        (LED, taken(2, 2)),
        (LED, taken(4, 2)),
    ],
    ids=["an epoch falls", "an epoch has two holders", "a takeover has the epoch before it", "takeovers fall"],
)
def test_anything_else_is_told(led: Sequence[tuple[int, str]], takeovers: Sequence[Takeover]) -> None:
    assert not in_order(led, takeovers)
