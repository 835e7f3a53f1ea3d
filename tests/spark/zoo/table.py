"""The zoo's report as a table for people, to be shown in docs/: python -m tests.spark.zoo.table [REPORT.json]"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from tests.spark.zoo.exhibits import EXHIBITS, WARM_UP, Exhibit
from tests.spark.zoo.report import PLACE, Report
from tests.spark.zoo.trial import Outcome

_HEAD = "| script | what it does | rehearsed | kills | takeover, p50 (range) | rows | lost | repeated | claim |\n" + (
    "| --- " * 9 + "|\n"
)


def table(outcomes: list[Outcome]) -> str:
    """Every exhibit has a line, also one that was not run."""
    found = {each.script: each for each in outcomes}
    return _HEAD + "".join(_line(each, found.get(each.script, Outcome(each.script))) for each in EXHIBITS)


def claimed(exhibit: Exhibit) -> str:
    return f"{exhibit.claim}: {exhibit.why}" if exhibit.why else exhibit.claim


def _line(exhibit: Exhibit, outcome: Outcome) -> str:
    times = sorted(outcome.takeovers)
    took = f"{statistics.median(times):.1f} s ({times[0]:.1f}–{times[-1]:.1f})" if times else "–"
    ran = bool(outcome.rows)
    numbers = (len(outcome.kills), outcome.rows, outcome.lost, outcome.repeated)
    kills, *rows = (str(number) if ran else "–" for number in numbers)
    rehearsed = outcome.how
    if outcome.how == WARM_UP:
        rehearsed = f"no, but a query of ours: held at `{outcome.held}`"
    rehearsed = rehearsed or (f"no: held at `{outcome.held}`" if outcome.held else "not asked: it ends by itself")
    if not ran:
        rehearsed = "not run yet"
    cells = (f"`{exhibit.script}`", exhibit.about, rehearsed, kills, took, *rows, claimed(exhibit))
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    if not report.exists():
        sys.exit(f"{report}: no such report; make zoo writes it")
    sys.stdout.write(table(Report(report).outcomes))
