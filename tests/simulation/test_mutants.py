"""Each guard taken out is caught. The seed that caught it last is tried first; ``make prove`` tries them in their order."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.prove import plan_for
from tests.simulation.world import play


def catching(mutant: Mutant) -> int | None:
    """A seed whose history notices that the guard is gone."""
    with mutant.alive():
        seeds = (mutant.caught_by, *range(2000))
        return next((seed for seed in seeds if play(plan_for(mutant, seed)).broken), None)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_history_catches_the_lack_of_a_guard(mutant: Mutant) -> None:
    seed = catching(mutant)
    assert seed is not None, "nothing notices that it is gone"
    assert not play(plan_for(mutant, seed)).broken, "the very same history, with the guard"
