"""A few seconds of the search that ``make prove`` gives two minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.explore import diagram, explore
from tests.simulation.mutants import MUTANTS

PAGE = Path(__file__).parents[2] / "docs" / "proof.md"


@pytest.mark.parametrize(("replicas", "faults"), [(2, 2), (3, 1)])
def test_no_interleaving_opens_two_gates_or_repeats_an_epoch(replicas: int, faults: int) -> None:
    found = explore(replicas, faults, seconds=8.0)
    assert found.broken == []
    assert found.states > 1000
    shown = PAGE.read_text().splitlines()
    assert all(arrow in shown for arrow in diagram(found.roles).splitlines()), "docs/proof.md does not show all of them"


def test_the_search_finds_what_a_lease_is_for() -> None:
    (mutant,) = (each for each in MUTANTS if each.name.startswith("a lease is waited for"))
    with mutant.alive():
        (broken,) = explore(2, 2, seconds=60.0).broken
    assert broken.startswith("the gates of ['r0', 'r1'] are open after: ")
