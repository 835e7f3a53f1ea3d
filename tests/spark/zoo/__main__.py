"""The zoo: every script plainly and under replicas whose leaders are killed (``make zoo``).

python -m tests.spark.zoo --kills 20               all of them, and build/zoo/report.json
python -m tests.spark.zoo --kills 2 udfs upsert    some, whose lines in that report are replaced
python -m tests.spark.zoo --timed udfs             the same with JVMs and rehearsals as shipped, users' functions rehearsed: build/zoo/timed.json
python -m tests.spark.zoo --stops 20               those with state, suspended and resumed, and drained: build/zoo/stops.json
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import time
from pathlib import Path

from testkit.options import refuse_unknown
from tests.spark.zoo.exhibits import EXHIBITS, ONCE, Exhibit
from tests.spark.zoo.report import PLACE, Report
from tests.spark.zoo.stops import STATEFUL, StopTrial
from tests.spark.zoo.timed import TimedTrial
from tests.spark.zoo.trial import Failed, Outcome, Trial


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.zoo")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="some of them (all)")
    parser.add_argument("--kills", type=int, default=20, help="leaders killed per script")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--stops", type=int, help="in place of kills: suspensions per script, every third with a kill")
    other.add_argument("--timed", action="store_true", help="JVMs and rehearsals as users have them")
    parser.add_argument("--seed", type=int, default=0, help="of who is killed, and when")
    parser.add_argument("--out", type=Path, default=PLACE.parent)
    options = parser.parse_args()
    names = [exhibit.script for exhibit in EXHIBITS]
    refuse_unknown(parser, "SCRIPT", options.scripts, names)
    options.out.mkdir(parents=True, exist_ok=True)
    kind, times, place, usual = Trial, options.kills, PLACE.name, names
    if options.timed:
        kind, place = TimedTrial, "timed.json"
    if options.stops is not None:
        kind, times, place, usual = StopTrial, options.stops, "stops.json", list(STATEFUL)
    report = Report(options.out / place)
    wanted = options.scripts or usual
    bad = 0
    for exhibit in EXHIBITS:
        if exhibit.script not in wanted:
            continue
        began = time.monotonic()
        try:
            outcome = _tried(kind, exhibit, options.out / exhibit.script, options.seed, times)
        except Failed as failed:
            sys.stdout.write(f"{exhibit.script:<22} FAILED  {failed}\n")
            sys.stdout.flush()
            report.drop(exhibit.script)
            bad += 1
            continue
        wrong = outcome.lost or outcome.touched or (outcome.repeated and exhibit.claim == ONCE)
        wrong = wrong or len(outcome.kills) < times or outcome.how != (exhibit.how if exhibit.asked else "")
        bad += bool(wrong)
        report.keep(outcome)
        p50 = f"{statistics.median(outcome.takeovers):.2f} s" if outcome.takeovers else "–"
        how = outcome.how or (f"held at {outcome.held}" if outcome.held else "–")
        told = f"{how:<12} kills {len(outcome.kills):>3}  p50 {p50:>7}"
        rows = f"rows {outcome.rows:>6}  lost {outcome.lost}  repeated {outcome.repeated}"
        for what, each in (("suspend", outcome.suspends), ("drain", outcome.drains)):
            told += f"  {what} {statistics.median(each):.1f} s" if each else ""
        touched = f"  touched {outcome.touched[:3]}" if outcome.touched else ""
        took = time.monotonic() - began
        sys.stdout.write(
            f"{exhibit.script:<22} {'WRONG' if wrong else 'ok':<6} {told}  {rows}{touched}  {took:.0f} s\n"
        )
        sys.stdout.flush()
    return 1 if bad else 0


def _tried(kind: type[Trial], exhibit: Exhibit, home: Path, seed: int, kills: int) -> Outcome:
    """A script that ends by itself is run until there were ``kills`` of them, each time from the beginning. Raises ``Failed``."""
    choose = random.Random(f"{seed} {exhibit.script}")
    whole = Outcome(exhibit.script)
    while True:
        shutil.rmtree(home, ignore_errors=True)
        outcome = kind(exhibit, home, choose).run(kills - len(whole.kills))
        whole.add(outcome)
        if exhibit.asked or len(whole.kills) >= kills:
            return whole


if __name__ == "__main__":
    sys.exit(main())
