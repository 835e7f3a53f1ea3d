"""Takeovers that were measured: their figures, as a table and as a report."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testkit import reports
from testkit.options import refuse_unknown
from testkit.phases import PHASES


@dataclass(frozen=True, slots=True)
class Took:
    """One takeover: ``seconds`` from the signal to the commit, and where they went as far as the replica told."""

    seconds: float
    phases: Mapping[str, float | None] = field(default_factory=dict)


#: Takeovers by kind of failure and variant.
Times = dict[str, dict[str, list[Took]]]

#: How often each variant has its turn.
TURNS = 2

#: A 99th percentile of fewer trials is the maximum under another name.
P99_FROM = 100


def shares(n: int) -> list[int]:
    """``n`` takeovers dealt out to the turns."""
    return [len(range(turn, n, TURNS)) for turn in range(min(n, TURNS))]


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """n, median and the middle half."""
    low, median, high = statistics.quantiles(seconds, n=4)
    return {"n": len(seconds), "p25_s": round(low, 3), "p50_s": round(median, 3), "p75_s": round(high, 3)}


def summary(takeovers: Sequence[Took]) -> dict[str, object]:
    """n, median, 99th percentile from 100 trials on, the extremes, and each phase's median; seconds."""
    times = [each.seconds for each in takeovers]
    p99 = statistics.quantiles(times, n=100)[98] if len(times) >= P99_FROM else None
    rounded = {"p50_s": statistics.median(times), "p99_s": p99, "min_s": min(times), "max_s": max(times)}
    told = {name: [took for each in takeovers if (took := each.phases.get(name)) is not None] for name in PHASES}
    return {
        "n": len(times),
        **{name: None if value is None else round(value, 3) for name, value in rounded.items()},
        "phases_p50": {name: round(statistics.median(found), 3) for name, found in told.items() if found},
    }


def table(times: Times, variants: Sequence[str]) -> str:
    lines = [
        f"{'what':<12}"
        + "".join(f"{variant + ' p50 (min–max)':>32}" for variant in variants)
        + f"{'restart ÷ ours':>16}"
    ]
    for kind, by_variant in times.items():
        cells = []
        seconds = {name: [each.seconds for each in found] for name, found in by_variant.items()}
        for variant in variants:
            found = seconds.get(variant)
            text = f"{statistics.median(found):.2f} s ({min(found):.2f}–{max(found):.2f})" if found else "–"
            cells.append(f"{text:>32}")
        ours, restarted = seconds.get("understudy"), seconds.get("restart")
        ratio = f"{statistics.median(restarted) / statistics.median(ours):.1f}" if ours and restarted else "–"
        lines.append(f"{kind:<12}" + "".join(cells) + f"{ratio:>16}")
    return "\n".join(lines)


def asked(parser: argparse.ArgumentParser, kinds: Sequence[str]) -> tuple[argparse.Namespace, set[str]]:
    """Adds ``--kinds`` and ``--out``; what was given, and the kinds that are wanted. Nothing starts for what measures nothing."""
    parser.add_argument("--kinds", default=",".join(kinds), help="what happens to the leader")
    parser.add_argument("--out", type=Path, default=reports.OUT)
    options = parser.parse_args()
    if options.n < 1:
        parser.error(f"argument -n: {options.n} takeovers measure nothing; give 1 or more")
    wanted = set(options.kinds.split(","))
    refuse_unknown(parser, "--kinds", wanted, kinds)
    return options, wanted


def concluded(path: Path, times: Times, variants: Sequence[str], failed: int, **settings: object) -> int:
    """Leaves the report and shows the table; the exit code: 1 when a turn failed, even if the others measured something."""
    report = {
        "kinds": {kind: {name: summary(found) for name, found in by.items()} for kind, by in times.items()},
        **reports.provenance(),
        **settings,
        "turns_failed": failed,
    }
    reports.write(path, report)
    sys.stdout.write(f"\n{table(times, variants)}\n\nwritten: {path}\n")
    return 1 if failed else 0
