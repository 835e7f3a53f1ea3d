"""The zoo's report as a table for people, to be shown in docs/: python -m tests.spark.zoo.table [REPORT.json]"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from tests.spark.zoo.exhibits import EXHIBITS, Exhibit
from tests.spark.zoo.report import PLACE, Report
from tests.spark.zoo.trial import Outcome

_HEAD = "| script | what it does | rehearsed | kills | takeover, p50 (range) | rows | lost | repeated | claim |\n" + (
    "| --- " * 9 + "|\n"
)


def table(outcomes: list[Outcome]) -> str:
    exhibits = {each.script: each for each in EXHIBITS}
    return _HEAD + "".join(_line(exhibits[each.script], each) for each in outcomes)


def claimed(exhibit: Exhibit) -> str:
    return f"{exhibit.claim}: {exhibit.why}" if exhibit.why else exhibit.claim


def _line(exhibit: Exhibit, outcome: Outcome) -> str:
    times = sorted(outcome.takeovers)
    took = f"{statistics.median(times):.1f} s ({times[0]:.1f}–{times[-1]:.1f})" if times else "–"
    rehearsed = outcome.how or (f"no: held at {outcome.held}" if outcome.held else "not asked: it ends by itself")
    cells = (
        f"`{exhibit.script}`",
        exhibit.about,
        rehearsed,
        str(len(outcome.kills)),
        took,
        str(outcome.rows),
        str(outcome.lost),
        str(outcome.repeated),
        claimed(exhibit),
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    if not report.exists():
        sys.exit(f"{report}: no such report; make zoo writes it")
    sys.stdout.write(table(Report(report).outcomes))
