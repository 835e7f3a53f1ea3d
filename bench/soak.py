"""Fifty random kills in one run, then every row compared (``python -m bench.soak``)."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from bench.failover import trial
from bench.local_flights import Failed, LocalFlights
from bench.variants import UNDERSTUDY
from testkit import kills, observer, reports
from testkit.comparison import verify_apart
from testkit.feeds import DAYS, load

KINDS = ("sigterm", "jvm", "driver", "supervisor", "tree", "frozen")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of kinds and moments")
    parser.add_argument("--out", type=Path, default=reports.OUT)
    options = parser.parse_args()
    out = reports.made(options.out)
    choose = random.Random(options.seed)
    flights = LocalFlights(UNDERSTUDY, out / "run" / "soak", load(), limit=1_000_000)
    flights.feed.per_second = 0.3
    times: list[float] = []
    kinds: Counter[str] = Counter()
    problem = ""
    try:
        flights.start()
        while len(times) < options.kills:
            flights.wait_for(
                lambda: any(flights.ready(each, rounds=1) for each in flights.standbys()),
                180,
                "no standby is ready",
            )
            time.sleep(choose.uniform(0, 5))  # the other one may be in the middle of anything
            kind = choose.choice(KINDS)
            try:
                seconds = trial(flights, kind, choose).total_s
            except kills.NotThere as missed:  # no batch came by that could be frozen, or the leader went by itself
                sys.stdout.write(f"    {kind:<11}not done: {missed}\n")
                continue
            times.append(seconds)
            kinds[kind] += 1
            sys.stdout.write(f"{len(times):>3} {kind:<11}{seconds:7.2f} s\n")
            sys.stdout.flush()
        flights.feed.per_second = 0
        flights.feed.feed_now(max(0, DAYS - flights.feed.fed))  # at least the whole year
        flights.feed.close()
        flights.wait_for(flights.closed, 300, "the last windows were not written")
    except (Failed, kills.NotThere) as failed:
        problem = str(failed)
        sys.stdout.write(f"FAILED: {problem}\n")
    finally:
        flights.stop()
    lines = flights.fence.in_order()
    compared = [] if problem else verify_apart(flights.input, flights.output, flights.logs / "verify.log")
    report = {
        "ok": not problem and len(compared) == 2 and all(each.same for each in compared),
        "problem": problem,
        "kills": dict(kinds),
        "rows_expected": flights.feed.rows,
        "rows_lost": sum(each.lost for each in compared),
        "rows_repeated": sum(each.repeated for each in compared),
        "stale_writes_refused": len(observer.stale_refused(lines)),
        "max_s": round(max(times, default=0.0), 3),
        "seed": options.seed,
    }
    reports.write(out / "soak.json", report)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
