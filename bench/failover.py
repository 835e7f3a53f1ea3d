"""Takeover times beside two baselines, measured in one run (``make bench``).

``understudy``    three replicas, standbys rehearsed on the live checkpoint
``open_session``  three replicas, standbys with an open session that rehearse nothing
``restart``       the script alone in a shell loop: what a Deployment of one pod does at its best, without image or scheduler

The same script over the same flights, kills at uniformly random moments, measured from the signal to the first new
``commits/N`` with input rows, by an observer that imports nothing of understudy. Variants take turns, so that a noisy hour of
the machine falls on all of them.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import kills, procs, reports
from bench.data import load
from bench.phases import PHASES, Takeover, in_a_line
from bench.production import OPEN_SESSION, RESTART, UNDERSTUDY, Failed, Production, Variant

#: What is tried on whom. A shell loop has no supervisor to lose, and nobody restarts a frozen script.
KINDS = {
    "understudy": ("sigterm", "jvm", "tree", "frozen"),
    "open_session": ("jvm", "tree"),
    "restart": ("sigterm", "jvm", "tree"),
}


@dataclass(frozen=True, slots=True)
class Took:
    """One takeover: ``seconds`` from the signal to the commit, and where they went as far as the replica told."""

    seconds: float
    phases: Mapping[str, float | None] = field(default_factory=dict)


#: Takeovers by kind of failure and variant.
Times = dict[str, dict[str, list[Took]]]

VARIANTS = (UNDERSTUDY, OPEN_SESSION, RESTART)
NAMES = tuple(each.name for each in VARIANTS)

#: How often each variant has its turn.
TURNS = 2

#: A 99th percentile of fewer trials is the maximum under another name.
P99_FROM = 100

#: Days per second while somebody leads, and around a kill, when rows must be waiting for whoever comes next.
CALM, BUSY = 0.3, 3.0


def trial(production: Production, kind: str, choose: random.Random) -> Takeover:
    """One takeover of a production in which everybody is ready."""
    production.feed.per_second = BUSY
    try:
        if kind == "sigterm" and not production.variant.fenced:
            return production.kill("script", choose)
        if kind != "frozen":
            return production.kill(kind, choose)
        takeover, victim, _ = production.freeze()
        kills.thaw(victim)
        production.wait_for(lambda: not procs.lives(victim.jvm), 20, "the thawed JVM lives on")
        return takeover
    finally:
        production.feed.per_second = CALM


def ready(production: Production) -> None:
    """Somebody leads, and whoever would take over is as ready as this variant gets."""
    first = production.watch.first(lambda commit: commit.input, 180)
    if first is None:
        raise Failed(f"nobody committed within 180 s; see {production.logs}")
    if production.variant.replicas > 1 and not production.wait_for(production.all_ready, 30, "standbys", must=False):
        production.wait_for(lambda: any(map(production.ready, production.standbys())), 150, "no standby is ready")
    time.sleep(1.0)


def turn(variant: Variant, kinds: Sequence[str], directory: Path, choose: random.Random, times: Times) -> None:
    """The takeovers of one turn, in random order, in a production of its own. Raises ``Failed`` and ``NotThere``."""
    if not kinds:
        return
    order = list(kinds)
    choose.shuffle(order)
    production = Production(variant, directory, load(), limit=1_000_000)
    production.feed.per_second = CALM
    try:
        production.start()
        for kind in order:
            ready(production)
            takeover = trial(production, kind, choose)
            times[kind][variant.name].append(Took(takeover.total_s, takeover.phases))
            phases = in_a_line(takeover.phases)
            sys.stdout.write(f"{variant.name:>13} {kind:<11}{takeover.total_s:7.2f} s   {phases}\n")
            sys.stdout.flush()
    finally:
        production.stop()


def shares(n: int) -> list[int]:
    """``n`` takeovers dealt out to the turns."""
    return [len(range(turn, n, TURNS)) for turn in range(min(n, TURNS))]


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
        f"{'killed':<12}"
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
    if unknown := wanted - set(kinds):
        parser.error(f"argument --kinds: {', '.join(sorted(unknown))}; there are {', '.join(kinds)}")
    return options, wanted


def concluded(path: Path, times: Times, variants: Sequence[str], failed: int, **settings: object) -> int:
    """Leaves the report and shows the table; the exit code: 1 when a turn failed, whatever the others measured."""
    report = {
        "kinds": {kind: {name: summary(found) for name, found in by.items()} for kind, by in times.items()},
        **reports.provenance(),
        **settings,
        "turns_failed": failed,
    }
    reports.write(path, report)
    sys.stdout.write(f"\n{table(times, variants)}\n\nwritten: {path}\n")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-n", type=int, default=8, help="takeovers per kind and variant; 100 for figures worth publishing"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of order and moments")
    options, wanted = asked(parser, KINDS["understudy"])
    out = reports.made(options.out)
    choose = random.Random(options.seed)
    times: Times = defaultdict(lambda: defaultdict(list))
    failed = 0
    for share in shares(options.n):
        for variant in VARIANTS:
            kinds = [kind for kind in KINDS[variant.name] if kind in wanted] * share
            try:
                turn(variant, kinds, out / "run" / variant.name, choose, times)
            except (Failed, kills.NotThere) as problem:
                failed += 1
                sys.stdout.write(f"FAILED: {problem}\n")
    return concluded(out / "failover.json", times, NAMES, failed, seed=options.seed)


if __name__ == "__main__":
    sys.exit(main())
