"""Each guard taken out is caught. The seed that caught it last is tried first; ``make prove`` tries them in their order."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.guards import NoGuard, Skipped, changed, markers
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.prove import plan_for
from tests.simulation.world import play


def test_every_marker_has_one_mutant_and_every_mutant_has_its_markers() -> None:
    marked = Counter(marker.name for marker in markers())
    taken_out = Counter(name for mutant in MUTANTS for name, _ in mutant.guards)

    assert marked == taken_out
    assert set(marked.values()) == {1}


def test_a_guard_that_is_not_marked_is_an_error() -> None:
    with pytest.raises(NoGuard, match="0 guards are called no-such-guard"), changed([("no-such-guard", Skipped())]):
        pass


def catching(mutant: Mutant) -> int | None:
    """A seed whose history notices that the guard is gone."""
    with mutant.alive():
        seeds = (mutant.caught_by, *range(2000))
        return next((seed for seed in seeds if play(plan_for(mutant, seed)).broken), None)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(each, id=each.name) for each in MUTANTS if not each.searched and each.written is None],
)
def test_a_history_catches_the_lack_of_a_guard(mutant: Mutant) -> None:
    seed = catching(mutant)
    assert seed is not None, "nothing notices that it is gone"
    assert not play(plan_for(mutant, seed)).broken, "the very same history, with the guard"


@pytest.mark.parametrize("mutant", [pytest.param(each, id=each.name) for each in MUTANTS if each.written is not None])
def test_a_written_history_catches_the_lack_of_a_guard(mutant: Mutant) -> None:
    assert mutant.written is not None
    with mutant.alive():
        assert mutant.written(), "nothing notices that it is gone"
    assert mutant.written() == [], "the very same history, with the guard"
