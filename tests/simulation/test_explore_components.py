"""Components of one election, in every interleaving there is up to a size; and each guard of theirs, taken out."""

from __future__ import annotations

import pytest

from tests.simulation.explore_components import search
from tests.simulation.mutants import MUTANTS, Mutant


def test_no_interleaving_tells_a_component_what_is_not_true_or_writes_what_it_did_not_confirm() -> None:
    found = search()
    assert found.broken == ""
    assert found.states > 10_000


@pytest.mark.parametrize("mutant", [pytest.param(each, id=each.name) for each in MUTANTS if each.searched])
def test_the_search_catches_the_lack_of_a_guard(mutant: Mutant) -> None:
    with mutant.alive():
        assert search().broken
