"""The bench is fair where nothing goes wrong, and ours does what docs/proof.md says; theirs may be fixed any day."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.peers import ELECTORS, TROUBLES, Bench, killed, nothing


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_nothing_is_found_of_ours(trouble: Callable[[Bench, Any], Any]) -> None:
    assert all(Bench(seed, ELECTORS["understudy"]).play(trouble) == set() for seed in range(5))


@pytest.mark.parametrize("elector", ELECTORS)
def test_every_elector_leads_and_is_followed(elector: str) -> None:
    for seed in range(3):
        still, taken_over = Bench(seed, ELECTORS[elector]), Bench(seed, ELECTORS[elector])
        assert still.play(nothing) == set()
        assert len(still.acts) == 1
        assert taken_over.play(killed) == set()
        assert len(taken_over.acts) == 2
