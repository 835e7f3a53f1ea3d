"""What a takeover costs as a job grows, beside a restarted script, measured in one run (``make bench-growth``).

One direction at a time, the others small:

``partitions``  shuffle partitions of one stateful query
``queries``     queries of one script, two partitions each
``state``       megabytes of keys that one query remembers, in RocksDB with a changelog
``provider``    100 MB of them, by the provider of the state
``age``         batches that a query without state has behind it, from files into files
``latency``     milliseconds that an S3 server takes longer to answer; checkpoints and sinks are on ``s3a://``, documents on the disk
``executors``   processes that run the tasks of each replica, the standbys' too; 0: they run in its driver

Measured from SIGKILL of the leader's JVM to the first new ``commits/N`` with input rows, as ``bench.failover`` does. Variants take turns.
The report has the phases of every takeover; ``growth.png`` shows a plot per direction.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import random
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from bench.aged import age
from bench.failover import BUSY, CALM
from bench.growth_plot import plot
from bench.local_flights import Failed, Job, LocalFlights
from bench.variants import RESTART, Variant, add_options, chosen
from testkit import kills, observer, reports, s3
from testkit.command import confs
from testkit.feeds import COLUMNS, load, place
from testkit.links import slow_link
from testkit.options import refuse_unknown
from testkit.phases import Takeover, in_a_line
from testkit.takeovers import Times, Took, summary, table

SCRIPT = Path(__file__).with_name("growing_job.py")
#: Two replicas, as the bundle has by default.
UNDERSTUDY = Variant("understudy", 2, fenced=True)
VARIANTS = (UNDERSTUDY, RESTART)

#: Bytes that a key takes in the state, about: three short fields and a text of this length, which hardly any compression makes shorter.
KEY = 100
#: Keys of one file, four of which are read in one batch.
KEYS_PER_FILE = 50_000

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = f"{_PROVIDER}=org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true"
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "hdfs": (),
    "rocksdb": ("--conf", _ROCKSDB),
    "changelog": ("--conf", _ROCKSDB, "--conf", _CHANGELOG),
}


@dataclass(frozen=True, slots=True)
class Size:
    """A job of one size. ``known``: keys in its state before anything is measured; ``age``: batches it has behind it.

    ``latency``: seconds that the object store it is on takes longer; None for one on a disk.
    """

    name: str
    job: Job
    known: int = 0
    age: int = 0
    latency: float | None = None


def _queries(count: int) -> tuple[str, ...]:
    return tuple(f"q{number}" for number in range(count))


def _remembers(name: str, megabytes: int, provider: str) -> Size:
    job = Job(SCRIPT, _queries(1), ("--keeps-all",), ("--driver-memory", "3g", *PROVIDERS[provider]))
    return Size(name, job, (megabytes << 20) // KEY)


DIRECTIONS: Mapping[str, tuple[Size, ...]] = {
    "partitions": tuple(
        Size(str(each), Job(SCRIPT, _queries(1), ("--partitions", str(each)))) for each in (2, 20, 200)
    ),
    "queries": tuple(Size(str(each), Job(SCRIPT, _queries(each), ("--queries", str(each)))) for each in (1, 5, 20)),
    "state": tuple(_remembers(str(each), each, "changelog") for each in (1, 100, 1000, 2000)),
    "provider": tuple(_remembers(each, 100, each) for each in PROVIDERS),
    "age": tuple(
        Size(str(each), Job(SCRIPT, _queries(1), ("--keeps-nothing",)), age=each) for each in (10, 1_000, 100_000)
    ),
    "latency": tuple(Size(str(each), Job(SCRIPT, _queries(1)), latency=each / 1000) for each in (1, 20, 100)),
    "executors": (
        Size("0", Job(SCRIPT, _queries(1))),
        Size("2", Job(SCRIPT, _queries(1), settings=("--master", "local-cluster[2,1,1024]"))),
    ),
}


@contextmanager
def stored(size: Size, home: Path) -> Iterator[tuple[Job, Path | None]]:
    """The job, and where what it writes to an object store can be seen: the store keeps its objects as files."""
    if size.latency is None:
        yield size.job, None
        return
    shutil.rmtree(home, ignore_errors=True)
    with s3.server(home) as port, slow_link(port, size.latency) as slow:
        settings = {**s3.spark_settings(slow), "spark.driver.extraClassPath": f"{s3.s3a_jars()}/*"}
        yield (
            replace(size.job, settings=tuple(confs(settings)), output=f"s3a://{s3.BUCKET}/output"),
            home / "s3" / s3.BUCKET / "output",
        )


def _aircraft(number: int) -> str:
    return base64.b64encode(hashlib.shake_256(str(number).encode()).digest(KEY * 3 // 4)).decode()


def known_keys(directory: Path, count: int) -> int:
    """Files of ``count`` flights that never were, each of an aircraft of its own; how many files."""
    written, stamp = 0, 0
    day = datetime(2012, 1, 1)
    for first in range(0, count, KEYS_PER_FILE):
        out = io.StringIO()
        out.write(",".join(COLUMNS) + "\n")
        for number in range(first, min(first + KEYS_PER_FILE, count)):
            at = (day + timedelta(seconds=number % 31_000_000)).isoformat()
            out.write(f"{at},UA,{number % 9000},{_aircraft(number)},EWR,IAH,0,0,1400\n")
        stamp = place(directory, f"known-{first:012d}.csv", out.getvalue(), stamp)
        written += 1
    return written


def has_read(flights: LocalFlights, files: int) -> bool:
    return all(observer.files_read(flights.checkpoints / each) >= files for each in flights.job.queries)


def started(flights: LocalFlights, size: Size) -> None:
    """A leader has read everything that is known, and a standby has rehearsed it. Raises ``Failed``."""
    flights.prepare()
    files = known_keys(flights.input, size.known) + size.age
    if size.age:
        age(flights.checkpoints / "q0", flights.output / "q0", flights.input, size.age)
    flights.feed.per_second = CALM
    flights.run()
    flights.wait_for(lambda: has_read(flights, files + 1), 900, "the first rows are not all read")


def ready(flights: LocalFlights) -> None:
    since = time.time()
    if flights.watch.first(lambda commit: commit.input and commit.seen > since, 180) is None:
        raise Failed(f"nothing was committed within 180 s; see {flights.logs}")
    if flights.variant.replicas > 1:
        flights.wait_for(flights.all_ready, 600, "no standby is ready")
    time.sleep(1.0)


def turn(variant: Variant, size: Size, count: int, directory: Path, choose: random.Random) -> list[Takeover]:
    """``count`` takeovers of one job in a deployment of its own. Raises ``Failed`` and ``NotThere``."""
    found = []
    with stored(size, directory.with_name(f"{directory.name}-store")) as (job, written):
        flights = LocalFlights(variant, directory, load(), limit=1_000_000, job=job, written=written)
        try:
            started(flights, size)
            for _ in range(count):
                ready(flights)
                flights.feed.per_second = BUSY
                found.append(flights.kill("jvm", choose))
                flights.feed.per_second = CALM
                took = found[-1]
                phases = in_a_line(took.phases)
                sys.stdout.write(f"{size.name:>10} {variant.name:>11}{took.total_s:8.2f} s   {phases}\n")
                sys.stdout.flush()
        finally:
            flights.stop()
    return found


def measured(
    sizes: Sequence[Size], variants: Sequence[Variant], count: int, home: Path, choose: random.Random
) -> tuple[Times, int]:
    """The takeovers of one direction, by size and variant; and how many turns failed."""
    times: Times = defaultdict(lambda: defaultdict(list))
    failed = 0
    for size in sizes:
        for variant in variants:
            try:
                for took in turn(variant, size, count, home / variant.name, choose):
                    times[size.name][variant.name].append(Took(took.total_s, took.phases))
            except (Failed, kills.NotThere) as problem:
                failed += 1
                sys.stdout.write(f"FAILED: {size.name} {variant.name}: {problem}\n")
    return times, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=3, help="takeovers per size and variant")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments")
    parser.add_argument("--directions", default=",".join(DIRECTIONS), help="which of them")
    parser.add_argument("--sizes", default="", help="which sizes only, by name")
    parser.add_argument("--out", type=Path, default=reports.OUT)
    add_options(parser, VARIANTS)
    options = parser.parse_args()
    variants = chosen(parser, options, VARIANTS)
    wanted = options.directions.split(",")
    refuse_unknown(parser, "--directions", wanted, DIRECTIONS)
    if options.n < 1:
        parser.error(f"argument -n: {options.n} takeovers measure nothing; give 1 or more")
    out, choose, failed = reports.made(options.out), random.Random(options.seed), 0
    found: dict[str, Times] = {}
    for direction in wanted:
        sizes = [each for each in DIRECTIONS[direction] if not options.sizes or each.name in options.sizes.split(",")]
        found[direction], broken = measured(sizes, variants, options.n, out / "run", choose)
        failed += broken
        sys.stdout.write(f"\n{direction}\n{table(found[direction], [each.name for each in variants])}\n\n")
    summaries = {
        direction: {size: {name: summary(took) for name, took in by.items()} for size, by in times.items()}
        for direction, times in found.items()
    }
    path = out / "growth.json"
    reports.write(path, {"directions": summaries, **reports.provenance(), "seed": options.seed, "turns_failed": failed})
    plot(summaries, out / "growth.png")
    sys.stdout.write(f"written: {path} and {out / 'growth.png'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
