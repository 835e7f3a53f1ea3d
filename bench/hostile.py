"""A hostile hour (``make hostile``): one job, and everything that may happen to it, one after the other and all of it mixed.

For two thirds of the time its leaders are killed and frozen, the disk that holds the HA directory fills up, and the object store
that holds checkpoints and sinks answers 503. In the last third nothing is killed; the 503s go on. The fence's log may hold 1 MB all
the time. In the end every row is compared with one batch query, and what the last leader holds (descriptors, threads, heap after a
full collection) and what the HA directory takes on its disk must have stopped growing.

The full disk is a tmpfs of its own, so it takes root; without it that fault is left out, and the report says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.local_flights import Failed, LocalFlights
from bench.variants import UNDERSTUDY
from testkit import kills, observer, reports, s3
from testkit.command import confs
from testkit.comparison import verify_apart
from testkit.feeds import DAYS, load

KINDS = ("sigterm", "jvm", "driver", "supervisor", "tree", "frozen", "full disk")

#: Bytes the fence's log may have before it is rotated, and the variable that says so.
LOG_LIMIT = ("UNDERSTUDY_FENCE_LOG_LIMIT", "1000000")

#: The share of PUTs that the object store answers with 503.
SLOW_DOWN = 0.01

#: Seconds: a freeze past the lease of the profile ``fast``, and a disk that is full for less and for more than its renewal deadline.
FROZEN, FULL = 7.0, (1.0, 8.0)

#: Bytes of the HA directory's disk, where it is one of its own.
DISK = 256 << 20

#: Seconds between two looks at what everything holds.
LOOK = 30.0

#: What Spark keeps for its own pages of what is over grows for half an hour under its defaults, and would hide what we leak.
PAGES = {
    f"spark.{name}": "50"
    for name in ("sql.ui.retainedExecutions", "ui.retainedJobs", "ui.retainedStages", "ui.retainedTasks")
}

#: What may be there more at the end of the calm than at its beginning: medians of its first and last third.
TOLERATED: Mapping[str, float] = {"descriptors": 8, "threads": 8, "heap_mb": 12, "disk_mb": 4}


@dataclass(slots=True)
class Hostile(LocalFlights):
    """The flights job with checkpoints and sinks on ``s3a://``. The store keeps objects as files, so they are looked at as files."""

    port: int = 0

    @property
    def output(self) -> Path:
        return self.directory / "store" / "s3" / s3.BUCKET / "flights"

    def command(self, index: int) -> list[str]:
        *before, script, _, source, _, _ = super(Hostile, self).command(index)
        options = confs(s3.spark_settings(self.port) | PAGES)
        jars = ["--driver-class-path", f"{s3.s3a_jars()}/*"]
        job = [script, "--input", source, "--output", f"s3a://{s3.BUCKET}/flights"]
        return [*before, *jars, *options, *job]


@dataclass(frozen=True, slots=True)
class Look:
    """What the leader's processes hold at one moment (seconds since the start), and what the HA directory takes on its disk."""

    at: float
    leader: int  # the JVM's pid: figures of two JVMs are no series
    descriptors: int
    threads: int
    heap_mb: float
    disk_mb: float


@dataclass(slots=True)
class Watch:
    """Looks every ``LOOK`` seconds, in a thread of its own. ``collect``: ask the JVM for a full collection first."""

    flights: Hostile
    looks: list[Look] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(LOOK):
            with suppress(OSError, subprocess.SubprocessError, Failed):  # a leader that went meanwhile
                self._look()

    def _look(self) -> None:
        found = self.flights.leading()
        if found is None or found.jvm is None:
            return
        pids = [each.pid for each in found.all]
        self.looks.append(
            Look(
                at=round(time.monotonic() - self._began, 1),
                leader=found.jvm.pid,
                descriptors=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
                threads=sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids),
                heap_mb=round(heap_after_collection(found.jvm.pid), 1),
                disk_mb=round(sum(path.lstat().st_blocks * 512 for path in self.flights.ha.rglob("*")) / 1e6, 1),
            )
        )

    def growth(self, since: float) -> dict[str, float]:
        """Per quantity: the median of the last third of the looks since then, less that of the first third; of the leader that
        led longest, for one that has just begun fills its pools.
        """
        calm = [each for each in self.looks if each.at >= since]
        longest = [leader for leader, _ in Counter(each.leader for each in calm).most_common(1)]
        series = [each for each in calm if each.leader in longest]
        third = len(series) // 3
        if not third:
            return {}
        return {
            name: round(
                statistics.median(getattr(each, name) for each in series[-third:])
                - statistics.median(getattr(each, name) for each in series[:third]),
                1,
            )
            for name in TOLERATED
        }


def heap_after_collection(pid: int) -> float:
    """MB (10^6 bytes) of heap that the JVM uses after a full collection."""
    jcmd = Path(f"/proc/{pid}/exe").resolve().with_name("jcmd")  # its own JDK's: others may not be able to attach
    subprocess.run([str(jcmd), str(pid), "GC.run"], check=True, capture_output=True, timeout=30)
    said = subprocess.run([str(jcmd), str(pid), "GC.heap_info"], check=True, capture_output=True, text=True, timeout=30)
    used = next(line for line in said.stdout.splitlines() if " used " in line)
    return int(used.partition(" used ")[2].partition("K")[0]) * 1024 / 1e6


@contextmanager
def own_disk(directory: Path) -> Iterator[bool]:
    """A disk of its own at ``directory``, as a tmpfs. False where this may not be made."""
    directory.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "understudy-hostile", str(directory)]
    made = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield made
    finally:
        if made:
            subprocess.run(["umount", "--lazy", str(directory)], check=False)


def fill(directory: Path, seconds: float) -> None:
    """No room on the disk of ``directory`` for so long."""
    filler = directory / "filler"
    try:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        time.sleep(seconds)
    finally:
        filler.unlink()


def inject_fault(flights: Hostile, kind: str, choose: random.Random) -> None:
    """One fault, and the next commit with rows after it. Raises ``Failed`` if there is none, ``NotThere`` if there was nothing to inject it into."""
    victim = flights.leading()
    if victim is None:
        raise kills.NotThere("no replica leads just now")
    at = time.time()
    match kind:
        case "full disk":
            fill(flights.ha, choose.uniform(*FULL))
            at = time.time()
        case "frozen":
            kills.freeze(victim)
            time.sleep(FROZEN)
            kills.thaw(victim)
        case _:
            at = kills.kill(kind, victim)
    seen = flights.watch.first(lambda commit: commit.seen > at and commit.input, 180)
    if seen is None:
        raise Failed(f"no replica committed within 180 s of this: {kind}; see {flights.logs}")
    sys.stdout.write(f"    {kind:<11}{seen.seen - at:7.2f} s\n")
    sys.stdout.flush()


def sinks(flights: Hostile) -> Path:
    """The sinks as directories of plain files: what the log of the file sink lists, and one directory per batch of the other."""
    directory = flights.directory / "sinks"
    (directory / "delays").mkdir(parents=True)
    for path in observer.files_logged(flights.output / "delays" / "_spark_metadata"):
        name = path.partition(f"s3a://{s3.BUCKET}/flights/delays/")[2]
        (directory / "delays" / name).symlink_to(flights.output / "delays" / name)
    (directory / "flights").symlink_to(flights.output / "flights")
    return directory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="two thirds of it with faults (default: 60)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of kinds and moments")
    parser.add_argument("--out", type=Path, default=reports.OUT)
    options = parser.parse_args()
    out = reports.made(options.out)
    choose, slow = random.Random(options.seed), random.Random(options.seed + 1)
    flights = Hostile(UNDERSTUDY, out / "run" / "hostile", load(), limit=1_000_000)
    flights.deployment.environment = {**flights.deployment.environment, LOG_LIMIT[0]: LOG_LIMIT[1]}
    flights.feed.per_second = 0.3
    injected: Counter[str] = Counter()
    slowed = Counter[str]()
    problem, grown = "", dict[str, float]()

    def rule(line: str) -> str:
        if not line.startswith("PUT ") or slow.random() >= SLOW_DOWN:
            return "pass"
        slowed["503"] += 1
        return "503"

    flights.prepare()
    with (
        own_disk(flights.ha) as disk,
        s3.server(flights.directory / "store") as port,
        s3.S3Proxy(port, rule).running() as proxy,
    ):
        flights.port = proxy.port
        watch = Watch(flights)
        kinds = [kind for kind in KINDS if disk or kind != "full disk"]
        began = time.monotonic()
        calm = options.minutes * 40
        try:
            flights.run()
            watch.start()
            while time.monotonic() < began + calm:
                flights.wait_for(lambda: any(map(flights.ready, flights.standbys())), 240, "no standby is ready")
                time.sleep(choose.uniform(0, 20))  # anything may be under way
                kind = choose.choice(kinds)
                with suppress(kills.NotThere):
                    inject_fault(flights, kind, choose)
                    injected[kind] += 1
            time.sleep(max(0.0, began + options.minutes * 60 - time.monotonic()))
            grown = watch.growth(calm)
            flights.feed.per_second = 0
            flights.feed.feed_now(max(0, DAYS - flights.feed.fed))  # at least the whole year
            flights.feed.close()
            flights.wait_for(flights.closed, 600, "the last windows were not written")
        except (Failed, kills.NotThere) as failed:
            problem = str(failed)
            sys.stdout.write(f"FAILED: {problem}\n")
        finally:
            watch.stop()
            flights.stop()
        log_bytes = max((path.stat().st_size for path in (flights.ha).rglob("fence-*")), default=0)
    compared = [] if problem else verify_apart(flights.input, sinks(flights), flights.logs / "verify.log")
    flat = bool(grown) and all(grown[name] <= most for name, most in TOLERATED.items())
    report = {
        "ok": not problem and flat and slowed["503"] > 0 and len(compared) == 2 and all(each.same for each in compared),
        "problem": problem,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "faults": dict(injected),
        "slow_downs": slowed["503"],
        "own_disk": disk,
        "rows_expected": flights.feed.rows,
        "rows_lost": sum(each.lost for each in compared),
        "rows_repeated": sum(each.repeated for each in compared),
        "grown_in_the_calm": grown,
        "largest_log_bytes": log_bytes,
        "looks": [
            [each.at, each.leader, each.descriptors, each.threads, each.heap_mb, each.disk_mb] for each in watch.looks
        ],
        "seed": options.seed,
        **reports.provenance(),
    }
    reports.write(out / "hostile.json", report)
    sys.stdout.write(json.dumps({name: value for name, value in report.items() if name != "looks"}, indent=2) + "\n")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
