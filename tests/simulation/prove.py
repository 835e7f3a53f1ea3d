"""``make prove``: histories by the thousand, then every guard taken out; ``build/prove/report.json`` says what came of it.

    python -m tests.simulation.prove --seeds 10000      as many histories of all kinds, and the mutants
    python -m tests.simulation.prove --storms 10000     histories in which a hundred leaders die, one after the other
    python -m tests.simulation.prove --replay 4711      one history again, made shorter if it breaks something

A history that breaks something is shrunk, and printed with the command that replays it; the exit code is 1 then, as it is when a
mutant lives.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

from tests.fuzz.fuzzer import fuzz, fuzzer_is_there
from tests.fuzz.targets import TARGETS
from tests.simulation.explore import Found, explore
from tests.simulation.explore_components import Found as ComponentsFound
from tests.simulation.explore_components import search as search_components
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.plan import Kind, Plan, Result
from tests.simulation.world import play, shrunk

REPORT = Path(__file__).parents[2] / "build" / "prove" / "report.json"

#: Seeds a mutant has to survive to count as alive.
MUTANT_SEEDS = 4000
#: Replicas and faults of the two searches of every interleaving.
SEARCHES = ((2, 3), (3, 2))
#: Lines of a broken history that are shown.
_SHOWN = 60


@dataclass(slots=True)
class Tally:
    seeds: int = 0
    failovers: int = 0
    broken: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.failovers += result.failovers
        if result.broken:
            self.broken.append(result)


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant: whether it was caught, and by which seed, counted from 1; after how many states, where it was searched for."""

    name: str
    killed: bool
    seeds: int
    broken: str


def plan_for(mutant: Mutant, seed: int) -> Plan:
    """Where only some kinds of history can tell, only those are played."""
    return Plan.like(seed, mutant.kinds[seed % len(mutant.kinds)]) if mutant.kinds else Plan.of(seed)


def fate_of(number: int) -> Fate:
    mutant = MUTANTS[number]
    with mutant.alive():
        if mutant.searched:
            found = search_components()
            return Fate(mutant.name, bool(found.broken), found.states, found.broken)
        if mutant.written is not None:
            broken_by_it = mutant.written()
            return Fate(mutant.name, bool(broken_by_it), 1, "".join(broken_by_it[:1]))
        for seed in range(MUTANT_SEEDS):
            if broken := play(plan_for(mutant, seed)).broken:
                return Fate(mutant.name, True, seed + 1, broken[0])
    return Fate(mutant.name, False, MUTANT_SEEDS, "")


def _played(plan: Plan) -> Result:
    """Without its trace, which is of no use where nothing broke."""
    result = play(plan)
    return result if result.broken else replace(result, trace=())


def _storm(seed: int) -> Plan:
    return Plan.like(seed, Kind.STORM)


def progressing(what: str, results: Iterable[Result], total: int, tally: Tally) -> None:
    began = shown = time.monotonic()
    for result in results:
        tally.add(result)
        now = time.monotonic()
        if now - shown > (0.5 if sys.stderr.isatty() else 30.0) or tally.seeds == total:
            shown = now
            _bar(what, tally, total, now - began)
    tally.seconds += time.monotonic() - began


def _bar(what: str, tally: Tally, total: int, seconds: float) -> None:
    width = 24
    done = width * tally.seeds // max(1, total)
    text = (
        f"{what} [{'#' * done}{'.' * (width - done)}] {tally.seeds}/{total}  {tally.seeds / seconds:.0f}/s  "
        f"{tally.failovers} failovers  {len(tally.broken)} broken"
    )
    end = "\r" if sys.stderr.isatty() and tally.seeds < total else "\n"
    sys.stderr.write(f"{text:<100}{end}")
    sys.stderr.flush()


def shown(result: Result) -> Iterator[str]:
    yield f"seed {result.plan.seed} ({result.plan.kind}) breaks: {'; '.join(result.broken[:3])}"
    kept = [str(number) for number in range(result.plan.troubles) if number not in result.plan.without]
    yield f"with {len(kept)} of {result.plan.troubles} troubles ({', '.join(kept)}):"
    yield from result.trace[-_SHOWN:]
    storm = " --storm" if result.plan.kind is Kind.STORM else ""
    yield f"replay: python -m tests.simulation.prove --replay {result.plan.seed}{storm}"


def _fuzzed(target: tuple[str, int]) -> tuple[str, int, str]:
    return target[0], *fuzz(*target)


def _explored(search: tuple[int, int, float]) -> Found:
    return explore(*search)


@dataclass(slots=True)
class Proof:
    """``inputs``: how many each parser was given. ``crashes``: what a parser did with one of them."""

    tally: Tally = field(default_factory=Tally)
    searches: list[Found] = field(default_factory=list)
    components: ComponentsFound = field(default_factory=ComponentsFound)
    inputs: dict[str, int] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)

    @property
    def alive(self) -> list[str]:
        return [fate.name for fate in self.fates if not fate.killed]

    @property
    def violations(self) -> int:
        searched = sum(len(found.broken) for found in self.searches) + bool(self.components.broken)
        return len(self.tally.broken) + searched + len(self.crashes)

    def report(self) -> dict[str, object]:
        return {
            "seeds": self.tally.seeds,
            "failovers": self.tally.failovers,
            "states": sum(found.states for found in self.searches),
            "violations": self.violations,
            "seeds_per_s": round(self.tally.seeds / self.tally.seconds, 1) if self.tally.seconds else 0.0,
            "fuzzed": self.inputs,
            "mutants": [{"name": fate.name, "killed": fate.killed, "seeds": fate.seeds} for fate in self.fates],
        }

    def play(self, workers: Pool, first: int, seeds: int, storms: int) -> None:
        if seeds:
            each = workers.imap_unordered(_played, map(Plan.of, range(first, first + seeds)), 8)
            progressing("histories", each, seeds, self.tally)
        if storms:
            each = workers.imap_unordered(_played, map(_storm, range(first, first + storms)))
            progressing("storms", each, self.tally.seeds + storms, self.tally)

    def search(self, workers: Pool, seconds: float) -> None:
        for found in workers.imap(_explored, [(*search, seconds) for search in SEARCHES]):
            self.searches.append(found)
            sys.stderr.write(f"{found}\n")
        self.components = search_components()
        sys.stderr.write(f"{self.components}\n")

    def fuzz(self, workers: Pool, seconds: int) -> None:
        if not fuzzer_is_there():
            sys.stderr.write("not fuzzed: there is no atheris here (tools/setup.sh fuzz)\n")
            return
        for name, tried, crash in workers.imap(_fuzzed, [(name, seconds) for name in TARGETS]):
            self.inputs[name] = tried
            self.crashes += [f"{name}: {crash}"] if crash else []
        sys.stderr.write(f"fuzzed: {self.inputs}\n")

    def mutate(self, workers: Pool) -> None:
        for fate in workers.imap(fate_of, range(len(MUTANTS))):
            self.fates.append(fate)
            said = f"{'killed' if fate.killed else 'ALIVE '} {fate.seeds:5d}  {fate.name}  ({fate.broken[:60]})"
            sys.stderr.write(f"{said}\n")

    def show(self) -> None:
        for result in self.tally.broken[:5]:
            sys.stdout.write("\n".join(shown(shrunk(result))) + "\n\n")
        sys.stdout.writelines(f"{crash}\n" for crash in self.crashes)
        killed = f"{len(self.fates) - len(self.alive)} of {len(self.fates)} mutants killed"
        played = f"{self.tally.seeds} histories, {self.tally.failovers} failovers"
        sys.stdout.write(f"{played}, {self.violations} violations; {killed}\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=int(os.environ.get("SEEDS", "10000")))
    parser.add_argument("--storms", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--explore", type=float, default=120.0, help="seconds for each search of every interleaving")
    parser.add_argument("--fuzz", type=int, default=10, help="seconds for each parser")
    parser.add_argument("--no-mutants", action="store_true")
    parser.add_argument("--replay", type=int)
    parser.add_argument("--storm", action="store_true", help="the seed to replay is a storm's")
    parser.add_argument("--out", type=Path, default=REPORT)
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _replay(_storm(options.replay) if options.storm else Plan.of(options.replay))
    proof = Proof()
    with get_context("fork").Pool(os.cpu_count() or 1) as workers:
        proof.play(workers, options.first, options.seeds, options.storms)
        if options.explore:
            proof.search(workers, options.explore)
        if options.fuzz:
            proof.fuzz(workers, options.fuzz)
        if not options.no_mutants:
            proof.mutate(workers)
    proof.show()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(proof.report(), indent=2) + "\n")
    return 1 if proof.violations or proof.alive else 0


def _replay(plan: Plan) -> int:
    result = play(plan)
    if result.broken:
        sys.stdout.write("\n".join(shown(shrunk(result))) + "\n")
        return 1
    sys.stdout.write("\n".join(result.trace) + f"\nseed {plan.seed} ({plan.kind}) breaks nothing\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
