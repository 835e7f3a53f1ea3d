"""Takeovers between two hosts that share no more than an object store, or that and an ensemble of ZooKeeper (``python -m bench.hosts``).

The hosts are network namespaces of this machine (needs root). Each has a disk of its own for ``--ha-dir``; checkpoint and sink are on
``s3a://``, and so are the documents and the lock with ``--ha s3``; with ``--ha zookeeper`` these are on three servers of it. The files that
are read lie in a directory that both hosts see.

``sigterm``, ``jvm``, ``driver``, ``supervisor``, ``tree``   of the leader's processes, as ``bench.failover`` kills them
``host``   everything that runs on the leader's host, as when its power goes; it is back after the takeover
``cut``    the leader's host has no network, and nothing says so; it is repaired after the takeover

Kills come in random order at uniformly random moments, measured to the first new ``commits/N`` with input rows that the fence's log says
is a successor's. At the end every row of the sink is compared with what was fed.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import pyarrow.parquet as pq

from bench.failover import BUSY, CALM
from bench.local_flights import CLUSTER, PATIENCE_S, ROUNDS, SPARK, Failed, Job, LocalFlights
from bench.variants import Variant
from testkit import documents, kills, observer, reports, s3
from testkit.command import confs, understudy
from testkit.deployment import Replica
from testkit.feeds import load
from testkit.hosts import SERVER, Host, hosts, why_not
from testkit.options import refuse_unknown
from testkit.phases import Takeover, in_a_line
from testkit.tails import FenceLog
from testkit.takeovers import Times, Took, asked, concluded
from testkit.zookeeper import ensemble

KINDS = ("sigterm", "jvm", "driver", "supervisor", "tree", "host", "cut")
BACKENDS = ("s3", "zookeeper")

#: Seconds after which a replica that has ended is started again, as in examples/understudy.service.
BACK_IN_S = 2.0
#: Seconds between two questions about the replicas: each is a process of its own, on the processors of the takeover.
ASKED_EVERY_S = 3.0
#: Seconds within which a host that was lost has a standby again.
READY_S = 300.0

BUCKET = f"s3a://{s3.BUCKET}"
#: A stateful query: it lets every flight through once.
JOB = Job(Path(__file__).with_name("growing_job.py"), ("q0",), ("--keeps-all",), output=f"{BUCKET}/output")
#: What makes a row of its sink, and is there once.
KEY = ("scheduled", "carrier", "flight", "tailnum")


@dataclass(slots=True)
class HostsFlights(LocalFlights):
    """Replicas on ``machines`` in turns. ``ha``: words that choose the services, but for the store's settings; ``port`` is the store's."""

    machines: Sequence[Host] = ()
    services: tuple[str, ...] = ()
    port: int = 0
    options: tuple[str, ...] = ()
    _looked: tuple[float, list[documents.Standing]] = field(default=(0.0, []))

    def __post_init__(self) -> None:
        LocalFlights.__post_init__(self)
        self.fence = FenceLog(self.directory, f"disk-*/{CLUSTER}/log/fence-*.jsonl")

    def confs(self, address: str) -> list[str]:
        return confs(s3.spark_settings(self.port, address))

    def command(self, index: int) -> list[str]:
        ids = ["--cluster-id", CLUSTER, "--job-id", CLUSTER, "--ha-dir", str(self.directory / f"disk-{index + 1}")]
        local = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
        spark = [*SPARK, *local, "--driver-class-path", f"{s3.s3a_jars()}/*", *self.confs(SERVER)]
        often = ["--profile", "fast", "--restart-strategy", "fixed-delay", "--restart-attempts", "500", *self.options]
        script = [str(self.job.script), "--input", str(self.input), "--output", JOB.output, *self.job.arguments]
        host = self.machines[index % len(self.machines)]
        return host.command(*understudy(), "run", *ids, *self.services, *often, *spark, *script)

    def host(self, pid: int) -> Host:
        return next(each for each in self.machines if pid in each.pids())

    def ready(self, replica: Replica, rounds: int = ROUNDS) -> bool:
        """Whether it has rehearsed. Its log says so of the first round, and costs no process."""
        if rounds > 1:
            return LocalFlights.ready(self, replica, rounds)
        last = self.events.last(replica.log, "acquired", "driver-died", "attached", "rehearsed")
        return last is not None and last.event == "rehearsed"

    def standings(self) -> list[documents.Standing]:
        """As ``understudy status`` tells them."""
        at, found = self._looked
        if time.monotonic() < at + ASKED_EVERY_S:
            return found
        command = [*understudy(), "status", "--json", *self.services, *self.confs(SERVER)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        told = json.loads(done.stdout)["replicas"] if done.returncode == 0 else []
        names = [each.name for each in fields(documents.Standing)]
        found = [documents.Standing(**{name: each[name] for name in names}) for each in told]
        self._looked = time.monotonic(), found
        return found

    def befall(self, kind: str, choose: random.Random) -> Takeover:
        """Kill the leader, or what it runs on, and measure until a replica commits rows."""
        if kind not in {"host", "cut"}:
            return self.kill(kind, choose)
        time.sleep(choose.uniform(0, 1.0))
        before, victim = self._token(), self._found_leading()
        host, at = self.host(victim.supervisor.pid), time.time()
        if kind == "host":
            self.deployment.back_in_s = math.inf
            host.kill()
            try:
                return self.measure(kind, at, before, victim)
            finally:
                self.deployment.back_in_s = BACK_IN_S
        host.cut()
        try:
            return self.measure(kind, at, before, victim)
        finally:
            host.repair()

    def compared(self) -> tuple[int, int, int]:
        """Rows that were fed; of these, how many are not in the sink; and how many there are too many."""
        fed: set[tuple[str, ...]] = set()
        for path in self.input.glob("*.csv"):
            with path.open(newline="") as opened:
                fed.update((row[KEY[0]], row[KEY[1]], row[KEY[2]], row[KEY[3]]) for row in csv.DictReader(opened))
        found: Counter[tuple[str, ...]] = Counter()
        for name in observer.files_logged(self.output / "q0" / "_spark_metadata"):
            table = pq.read_table(self.output.parent / name.removeprefix(f"{BUCKET}/"), columns=list(KEY))
            stamps = (each.strftime("%Y-%m-%dT%H:%M:%S") for each in table.column(KEY[0]).to_pylist())
            rest = ([each or "" for each in table.column(name).to_pylist()] for name in KEY[1:])
            found.update((stamp, *map(str, key)) for stamp, *key in zip(stamps, *rest, strict=True))
        return len(fed), len(fed - found.keys()), found.total() - len(fed & found.keys())


@contextmanager
def replicated(backend: str, chosen: argparse.Namespace, directory: Path) -> Iterator[HostsFlights]:
    """Replicas that run, as many on each of two hosts as are ``chosen``, and what they need. Raises ``Failed``."""
    job = replace(JOB, arguments=(*JOB.arguments, "--trigger-ms", str(chosen.trigger_ms)))
    shutil.rmtree(directory, ignore_errors=True)
    store = directory / "store"
    with hosts(2) as machines, s3.server(store, "") as port, servers(backend, directory / "servers") as services:
        variant = Variant(backend, 2 * chosen.per_host, fenced=True)
        written = store / "s3" / s3.BUCKET / "output"
        flights = HostsFlights(
            variant,
            directory / "run",
            load(),
            limit=1_000_000,
            job=job,
            written=written,
            machines=machines,
            services=services,
            port=port,
            options=tuple(shlex.split(chosen.options)),
            patience_s=PATIENCE_S if chosen.rounds else READY_S,
        )
        flights.deployment.back_in_s = BACK_IN_S
        flights.feed.per_second = CALM
        try:
            flights.start()
            yield flights
        finally:
            flights.stop()


@contextmanager
def servers(backend: str, directory: Path) -> Iterator[tuple[str, ...]]:
    """The words that choose the services, once there are any."""
    if backend == "s3":
        yield "--ha", "s3", "--ha-address", f"{BUCKET}/ha"
        return
    java = shutil.which("java")
    if java is None:
        raise Failed("there is no java on PATH for ZooKeeper's servers")
    with ensemble(directory, java, address="0.0.0.0") as made:
        addresses = ",".join(f"{SERVER}:{each.client_port}" for each in made.servers)
        yield "--ha", "zookeeper", "--ha-address", addresses


def ready(flights: HostsFlights, rounds: int) -> None:
    """A replica leads and commits, and one on the other host has rehearsed ``rounds`` times; with 0 of them, none is waited for."""
    since = time.time()
    if flights.watch.first(lambda commit: commit.input and commit.seen > since, READY_S) is None:
        raise Failed(f"nothing was committed within {READY_S:.0f} s; see {flights.logs}")

    if rounds == 0:
        return

    def stands_by() -> bool:
        leading = flights.leading()
        if leading is None:
            return False
        there = flights.host(leading.supervisor.pid).pids()
        return any(each.pid not in there and flights.ready(each, rounds) for each in flights.standbys())

    flights.wait_for(stands_by, READY_S, "no standby on the other host is ready")


def turn(flights: HostsFlights, kinds: Sequence[str], rounds: int, choose: random.Random, times: Times) -> None:
    for kind in kinds:
        ready(flights, rounds)
        flights.feed.per_second = BUSY
        try:
            takeover = flights.befall(kind, choose)
        except kills.NotThere as missed:  # on a busy machine a leader may miss its own lease
            sys.stdout.write(f"{flights.variant.name:>10} {kind:<11}not done: {missed}\n")
            continue
        finally:
            flights.feed.per_second = CALM
        times[kind][flights.variant.name].append(Took(takeover.total_s, takeover.phases))
        phases = in_a_line(takeover.phases)
        sys.stdout.write(f"{flights.variant.name:>10} {kind:<11}{takeover.total_s:7.2f} s   {phases}\n")
        sys.stdout.flush()


def after(since: float) -> Callable[[observer.Commit], bool]:
    return lambda commit: commit.seen > since


def catch_up(flights: HostsFlights) -> None:
    """Nothing more is fed, and all that was is committed, however much it is. Raises ``Failed`` where no more is committed."""
    flights.feed.per_second = 0
    while not flights.caught_up():
        if flights.watch.first(after(time.time()), PATIENCE_S) is None:
            flights.wait_for(flights.caught_up, 1.0, "not everything that was fed is committed, and nothing more is")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=8, help="takeovers per kind and backend")
    parser.add_argument("--ha", default=",".join(BACKENDS), help="which backends")
    parser.add_argument("--per-host", type=int, default=1, help="replicas on each host")
    parser.add_argument("--rounds", type=int, default=4, help="rehearsals of a standby that is waited for; 0: none is")
    parser.add_argument(
        "--trigger-ms", type=int, default=400, help="of the job; longer leaves processors to replicas that start"
    )
    parser.add_argument("--options", default="", help="more options of understudy run, in one text")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of order and moments")
    options, wanted = asked(parser, KINDS)
    backends = options.ha.split(",")
    refuse_unknown(parser, "--ha", backends, BACKENDS)
    if why := why_not():
        parser.error(f"no hosts can be made here: {why}")
    out, choose, failed = reports.made(options.out), random.Random(options.seed), 0
    times: Times = defaultdict(lambda: defaultdict(list))
    rows: dict[str, dict[str, int]] = {}
    for backend in backends:
        order = [kind for kind in KINDS if kind in wanted] * options.n
        choose.shuffle(order)
        try:
            with replicated(backend, options, out / "run" / "hosts") as flights:
                turn(flights, order, options.rounds, choose, times)
                catch_up(flights)
                rows[backend] = dict(zip(("fed", "lost", "repeated"), flights.compared(), strict=True))
                sys.stdout.write(f"{backend:>10} rows: {rows[backend]}\n")
        except Failed as problem:
            failed += 1
            sys.stdout.write(f"FAILED: {problem}\n")
    wrong = sum(each["lost"] + each["repeated"] > 0 for each in rows.values())
    return concluded(
        out / "hosts.json", times, backends, failed + wrong, seed=options.seed, rows=rows, per_host=options.per_host
    )


if __name__ == "__main__":
    sys.exit(main())
