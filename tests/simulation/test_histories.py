"""A few hundred histories; ``make prove`` plays many more. ``SEEDS=`` says how many."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.plan import Kind, Plan
from tests.simulation.prove import main
from tests.simulation.world import play, shrunk

SEEDS = int(os.environ.get("SEEDS", "400"))


def mutant(name: str) -> Mutant:
    return next(each for each in MUTANTS if each.name == name)


def test_no_history_breaks_anything(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    assert main(["--seeds", str(SEEDS), "--explore", "0", "--fuzz", "0", "--no-mutants", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert (report["seeds"], report["violations"]) == (SEEDS, 0)
    assert report["failovers"] > SEEDS, "histories without a takeover prove nothing"


@pytest.mark.parametrize("kind", list(Kind))
def test_one_seed_is_one_history(kind: Kind) -> None:
    plan = replace(Plan.like(3, kind), troubles=6)
    first, second = play(plan), play(plan)
    assert first == second
    assert first.turns > 100


def test_every_kind_of_history_takes_over() -> None:
    for kind in Kind:
        plans = [replace(Plan.like(seed, kind), troubles=8) for seed in range(10)]
        failovers = sum(play(plan).failovers for plan in plans)
        assert (failovers == 0) if kind is Kind.OUTAGE else (failovers > 0), kind


def test_in_some_histories_standbys_run_again_for_their_age_and_nothing_breaks() -> None:
    again = 0
    for plan in filter(lambda plan: plan.ages, map(Plan.of, range(60))):
        result = play(plan)
        assert result.broken == ()
        again += sum("restart-stale-standby" in line for line in result.trace)
    assert again > 0


def test_in_some_histories_a_finished_job_begins_new_runs_and_none_of_them_runs_twice() -> None:
    begun = refused = 0
    plans = [replace(plan, troubles=4) for plan in map(Plan.of, range(400)) if plan.runs]
    assert len(plans) > 5
    for plan in plans:
        result = play(plan)
        assert result.broken == ()
        begun += sum("run run-2 begins" in line or "run run-3 begins" in line for line in result.trace)
        refused += sum("has begun since" in line for line in result.trace)
    assert begun > 5
    assert refused > 0


def test_a_history_that_breaks_something_is_made_shorter_and_can_be_replayed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with mutant("every start of a driver has an attempt of its own").alive():
        broken = next(result for result in map(play, map(Plan.of, range(100))) if result.broken)
        short = shrunk(broken)
        assert main(["--replay", str(broken.plan.seed)]) == 1
    said = capsys.readouterr().out
    assert len(short.plan.without) > 0
    assert short.broken[0].startswith("I2")
    assert f"seed {broken.plan.seed} " in said
    assert re.search(rf"replay: .*--replay {broken.plan.seed}$", said, re.MULTILINE)
    assert main(["--replay", str(broken.plan.seed)]) == 0
