"""What understudy costs while nothing is wrong (``make steady``): a leader's batch time, CPU and memory with 0, 1 and 2 rehearsing
standbys, and without fence and supervisor (the plain script)."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from bench.local_flights import Failed, LocalFlights
from bench.variants import RESTART, UNDERSTUDY, Variant
from testkit import observer, procs, reports
from testkit.feeds import load

#: Seconds until the JIT has calmed down, and seconds measured.
WARM_UP, MEASURED = 30.0, 45.0


def steady_state(directory: Path) -> dict[str, dict[str, float]]:
    """Per variant: median batch time, CPU and resident memory of the leader's processes, and of its supervisor (the plain script's shell)."""
    variants = [RESTART, *(replace(UNDERSTUDY, name=f"{count - 1} standbys", replicas=count) for count in (1, 2, 3))]
    found = {}
    for variant in variants:
        name = "plain script" if variant is RESTART else variant.name
        found[name] = _measure(variant, directory)
        cells = "  ".join(f"{key} {value}" for key, value in found[name].items())
        sys.stdout.write(f"steady state, {name}: {cells}\n")
        sys.stdout.flush()
    return found


def _measure(variant: Variant, directory: Path) -> dict[str, float]:
    flights = LocalFlights(variant, directory, load(), limit=1_000_000)
    flights.feed.per_second = 1.0
    try:
        flights.start()
        if flights.watch.first(lambda commit: commit.input, 180) is None:
            raise Failed(f"no replica committed within 180 s; see {flights.logs}")
        if variant.replicas > 1:
            flights.wait_for(flights.all_ready, 300, "standbys")
        time.sleep(WARM_UP)
        leader = flights.leading() if variant.fenced else flights.deployment.replicas[0].processes()
        if leader is None or leader.jvm is None:
            raise Failed("no replica leads")
        session = [process.pid for process in leader.all if process != leader.supervisor]
        before = (sum(map(procs.cpu_s, session)), procs.cpu_s(leader.supervisor.pid), time.monotonic())
        seen = len(flights.watch.commits)
        time.sleep(MEASURED)
        passed = time.monotonic() - before[2]
        batches = _batch_times(
            flights, {(each.query, each.batch) for each in flights.watch.commits[seen:] if each.input}
        )
        return {
            "batch_p50_s": round(statistics.median(batches), 3) if batches else float("nan"),
            "batches": len(batches),
            "driver_cpu": round((sum(map(procs.cpu_s, session)) - before[0]) / passed, 3),
            "supervisor_cpu": round((procs.cpu_s(leader.supervisor.pid) - before[1]) / passed, 4),
            "driver_rss_mb": round(sum(map(procs.rss_mb, session))),
            "supervisor_rss_mb": round(procs.rss_mb(leader.supervisor.pid), 1),
        }
    finally:
        flights.stop()


def _batch_times(flights: LocalFlights, batches: set[tuple[str, int]]) -> list[float]:
    """From ``offsets/N`` to ``commits/N``, by the files' own times."""
    times = []
    for query, batch in batches:
        logs = flights.checkpoints / query
        offsets, commits = (observer.modified_at(str(logs / log / str(batch))) for log in ("offsets", "commits"))
        if offsets is not None and commits is not None:
            times.append(commits - offsets)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="how often each variant is measured; they take turns")
    parser.add_argument("--out", type=Path, default=reports.OUT)
    options = parser.parse_args()
    out = reports.made(options.out)
    found = [steady_state(out / "run" / "steady") for _ in range(options.rounds)]
    reports.write(out / "steady.json", found)
    sys.stdout.write(f"written: {out / 'steady.json'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
