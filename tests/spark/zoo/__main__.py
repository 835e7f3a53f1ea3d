"""The zoo: every script plainly and under replicas whose leaders are killed (``make zoo``).

python -m tests.spark.zoo --kills 20               all of them, and build/zoo/report.json
python -m tests.spark.zoo --kills 2 udfs upsert    some, whose lines in that report are replaced
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import time
from pathlib import Path

from tests.spark.zoo.exhibits import EXHIBITS, ONCE
from tests.spark.zoo.report import Report
from tests.spark.zoo.trial import Failed, Trial

BUILD = Path(__file__).parents[3] / "build" / "zoo"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.zoo")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="some of them (all)")
    parser.add_argument("--kills", type=int, default=20, help="leaders killed per script")
    parser.add_argument("--seed", type=int, default=0, help="of who is killed, and when")
    parser.add_argument("--out", type=Path, default=BUILD)
    options = parser.parse_args()
    names = [exhibit.script for exhibit in EXHIBITS]
    if unknown := set(options.scripts) - set(names):
        parser.error(f"argument SCRIPT: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.out.mkdir(parents=True, exist_ok=True)
    report = Report(options.out / "report.json")
    bad = 0
    for exhibit in EXHIBITS:
        if options.scripts and exhibit.script not in options.scripts:
            continue
        home = options.out / exhibit.script
        shutil.rmtree(home, ignore_errors=True)
        began = time.monotonic()
        trial = Trial(exhibit, home, random.Random(f"{options.seed} {exhibit.script}"))
        try:
            outcome = trial.run(options.kills)
        except Failed as failed:
            sys.stdout.write(f"{exhibit.script:<22} FAILED  {failed}\n")
            sys.stdout.flush()
            report.drop(exhibit.script)
            bad += 1
            continue
        wrong = outcome.lost or outcome.touched or (outcome.repeated and exhibit.claim == ONCE)
        bad += bool(wrong)
        report.keep(outcome)
        p50 = f"{statistics.median(outcome.takeovers):.2f} s" if outcome.takeovers else "–"
        told = f"{outcome.how or 'held at ' + outcome.held or '–':<12} kills {len(outcome.kills):>3}  p50 {p50:>7}"
        rows = f"rows {outcome.rows:>6}  lost {outcome.lost}  repeated {outcome.repeated}"
        touched = f"  touched {outcome.touched[:3]}" if outcome.touched else ""
        took = time.monotonic() - began
        sys.stdout.write(
            f"{exhibit.script:<22} {'WRONG' if wrong else 'ok':<6} {told}  {rows}{touched}  {took:.0f} s\n"
        )
        sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
