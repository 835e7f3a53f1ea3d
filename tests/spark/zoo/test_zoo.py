"""Two of the zoo, each with one kill; all of them, with many, are ``make zoo``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.spark.zoo.exhibits import EXHIBITS, ONCE
from tests.spark.zoo.table import claimed
from tests.spark.zoo.trial import SCRIPTS, Trial

PAGE = Path(__file__).parents[3] / "docs" / "zoo.md"

SHORT = ("window_counts", pytest.param("transform_with_state", marks=pytest.mark.long))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("script", SHORT)
def test_a_script_under_replicas_leaves_what_it_leaves_plainly(script: str, tmp_path: Path) -> None:
    exhibit = next(each for each in EXHIBITS if each.script == script)
    outcome = Trial(exhibit, tmp_path, random.Random(script)).run(1)
    assert exhibit.claim == ONCE
    assert (outcome.lost, outcome.repeated, outcome.touched) == (0, 0, [])
    assert outcome.rows > 0
    assert outcome.how == exhibit.how
    assert len(outcome.takeovers) == 1


def test_every_script_is_an_exhibit() -> None:
    beside = {each.script for each in EXHIBITS}
    scripts = {path.stem for path in SCRIPTS.glob("*.py")}
    assert scripts - beside == {"udfs_pricing"}, "and what one of them imports"
    assert beside <= scripts


def test_the_page_tells_of_every_exhibit_what_is_claimed_of_it_and_nothing_else() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    told = {
        cells[0]: (cells[1], cells[-1])
        for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    }
    assert told == {f"`{each.script}`": (each.about, claimed(each)) for each in EXHIBITS}
