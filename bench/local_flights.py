"""A running show: replicas, feed and observer together, and one measured kill at a time."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.variants import Variant
from testkit import documents, kills, observer, procs
from testkit.command import understudy
from testkit.deployment import Deployment, Replica
from testkit.feeds import Day, Feed
from testkit.phases import Takeover, phases_of
from testkit.places import REPOSITORY
from testkit.tails import Events, FenceLog

SCRIPT = REPOSITORY / "examples" / "flights.py"
QUERIES = ("delays", "flights")
CLUSTER = "flights"

#: Spark's own settings for small machines: the same for every variant, so that nothing else differs.
SPARK = ("--driver-memory", "1g", "--conf", "spark.ui.enabled=false")

#: Rounds of a standby that is as ready as it is waited for here: those it plays at once. The first makes it ready, these make it
#: fast; those that follow (``--rehearse-rounds``) go on while it is measured.
ROUNDS = 4

#: A takeover that takes longer than this has failed.
PATIENCE_S = 90.0


class Failed(Exception):
    """The run cannot go on: no replica took over, or none ever led."""


@dataclass(frozen=True, slots=True)
class Job:
    """A script over flights: the names of its queries, its own arguments, and what Spark is told beside ``SPARK``.

    ``output``: what the script is told to write to, where that is no directory.
    """

    script: Path
    queries: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    output: str = ""


FLIGHTS = Job(SCRIPT, QUERIES)


@dataclass(slots=True)
class LocalFlights:
    """One variant over one directory, which ``start`` clears. ``stop`` leaves no process behind."""

    variant: Variant
    directory: Path
    days: Sequence[Day]
    limit: int
    job: Job = FLIGHTS
    written: Path | None = None  # the directory in which what the job writes can be seen; its own one if None
    feed: Feed = field(init=False)
    deployment: Deployment = field(init=False)
    watch: observer.CommitWatch = field(init=False)
    fence: FenceLog = field(init=False)
    events: Events = field(init=False)
    patience_s: float = PATIENCE_S  # within which a successor has to commit
    victims: dict[str, int] = field(default_factory=dict)  # kind of kill: pid of the last victim's first process
    _holders: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feed = Feed(self.input, self.days, limit=self.limit)
        self.fence = FenceLog(self.ha / CLUSTER / "log")
        self.events = Events(self.logs)
        self.watch = observer.CommitWatch(self.checkpoints, self.job.queries)
        environment = {"UNDERSTUDY_LOG": "json", "PYTHONUNBUFFERED": "1", "PYSPARK_PYTHON": sys.executable}
        environment["UNDERSTUDY_FENCE_LOGS_KEPT"] = "1000000"  # stale writes are counted in all of them at the end
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(self.variant.checkout / "hooks"), os.environ.get("PYTHONPATH")])
        )
        if not self.variant.fenced:
            environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*SPARK, *self.job.settings, "pyspark-shell"])
        # the baseline's own loop starts it again at once, and where that was killed too nothing may wait longer
        back = 1.0 if self.variant.fenced else 0.0
        self.deployment = Deployment(self.command, self.variant.replicas, self.logs, environment, back_in_s=back)

    @property
    def input(self) -> Path:
        return self.directory / "input"

    @property
    def output(self) -> Path:
        return self.directory / "output" if self.written is None else self.written

    @property
    def ha(self) -> Path:
        return self.directory / "ha"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def checkpoints(self) -> Path:
        return self.output / "checkpoints"

    @property
    def database(self) -> Path:
        return self.output / "flights.db"

    def command(self, index: int) -> list[str]:
        """What a replica runs; the baseline is the loop a Deployment of one pod is at its best: no back-off, no pull."""
        del index
        job = self.job
        script = [
            str(job.script),
            "--input",
            str(self.input),
            "--output",
            job.output or str(self.output),
            *job.arguments,
        ]
        if not self.variant.fenced:
            return ["sh", "-c", f"while :; do {shlex.join([sys.executable, *script])}; done"]
        ids = ["--ha-dir", str(self.ha), "--cluster-id", CLUSTER, "--job-id", CLUSTER]
        return [
            *understudy(),
            "run",
            *ids,
            "--profile",
            "fast",
            "--restart-strategy",
            "fixed-delay",  # an exponential one has a replica wait for a minute before its next driver
            "--restart-attempts",
            "500",
            *self.variant.options,
            *SPARK,
            *job.settings,
            *script,
        ]

    # Running.

    def start(self, days: int = 4) -> None:
        self.prepare()
        self.run(days)

    def prepare(self) -> None:
        """An empty directory, with one for the input in it."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.input.mkdir(parents=True)

    def run(self, days: int = 4) -> None:
        self.feed.feed_now(days)
        self.feed.start()
        self.deployment.start()
        self.watch.start()

    def stop(self) -> None:
        self.feed.stop()
        self.deployment.stop()
        self.watch.stop()

    def leader(self) -> Replica | None:
        """The replica whose driver wrote last under the highest token; without a fence, the only one there is."""
        if not self.variant.fenced:
            return self.deployment.replicas[0]
        writer = self.fence.last_writer()
        if writer is None:
            return None
        return next((r for r in self.deployment.replicas if self.holder(r) == writer.holder), None)

    def holder(self, replica: Replica) -> str | None:
        """The UUID in the environment of the replica's driver, made once per supervisor; None before its first driver."""
        if (known := self._holders.get(replica.log)) is not None:
            return known
        found = replica.processes()
        for process in () if found is None else found.all:
            with suppress(OSError):
                for entry in Path("/proc", str(process.pid), "environ").read_bytes().split(b"\0"):
                    if entry.startswith(b"UNDERSTUDY_HOLDER="):
                        return self._holders.setdefault(replica.log, entry.partition(b"=")[2].decode())
        return None

    def leading(self) -> procs.ReplicaProcesses | None:
        """The leader's processes, complete: a JVM is there to be killed (a plain script is its own supervisor and driver)."""
        replica = self.leader()
        found = None if replica is None else replica.processes()
        if found is None or found.jvm is None or (found.driver is None and self.variant.fenced):
            return None
        return found

    def standbys(self) -> list[Replica]:
        leader = self.leader()
        return [replica for replica in self.deployment.replicas if replica is not leader and replica.pid is not None]

    def standings(self) -> list[documents.Standing]:
        return documents.standings(self.ha / CLUSTER, CLUSTER)

    def ready(self, replica: Replica, rounds: int = ROUNDS) -> bool:
        """What the replica says of itself: ``rounds`` rehearsed; without rehearsals, held at its first question."""
        for each in self.standings():
            if each.pid == replica.pid and each.role == "standby":
                if self.variant.options:
                    return bool(each.held)
                return each.rehearsed and each.rounds >= rounds
        return False

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str, *, must: bool = True) -> bool:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() >= deadline:
                if must:
                    raise Failed(f"{what}: not within {timeout_s:.0f} s; see {self.logs}")
                return False
            time.sleep(0.1)
        return True

    def all_ready(self, rounds: int = ROUNDS) -> bool:
        standbys = self.standbys()
        return len(standbys) == self.variant.replicas - 1 and all(self.ready(replica, rounds) for replica in standbys)

    def caught_up(self) -> bool:
        """Every day fed so far is in a committed batch of every query, and none is in flight."""
        for query in self.job.queries:
            checkpoint = self.checkpoints / query
            if observer.files_read(checkpoint) < self.feed.files:
                return False
            # after that: what is read meanwhile is logged first
            if not observer.all_committed(checkpoint):
                return False
        return True

    def at_rest(self) -> bool:
        """Caught up, and no batch was planned in the second after: one without rows follows where the watermark has moved. Takes that second."""
        newest = self._newest()
        if not self.caught_up():
            return False
        time.sleep(1.0)
        return self.caught_up() and self._newest() == newest

    def _newest(self) -> list[int]:
        return [observer.last_entry(self.checkpoints / query / "offsets") for query in self.job.queries]

    def closed(self) -> bool:
        """A batch with the closing file's watermark is committed by every query: every window has been written."""
        target = self.feed.closing_watermark_ms()
        for query in QUERIES:
            checkpoint = self.checkpoints / query
            last = observer.last_entry(checkpoint / "commits")
            mark = observer.batch_watermark_ms(checkpoint, last) if last >= 0 else None
            if mark is None or mark < target:
                return False
        return self.caught_up()

    # Killing.

    def kill(self, kind: str, choose: random.Random) -> Takeover:
        """Kill the leader at a uniformly random time within the next second, and measure until a replica commits rows."""
        self.wait_for(lambda: self.leading() is not None, PATIENCE_S, "no leader to kill")
        time.sleep(choose.uniform(0, 1.0))
        before = self._token()
        victim = self.leading()
        if victim is None:
            raise kills.NotThere("the leader went by itself")
        at = kills.kill(kind, victim)
        return self.measure(kind, at, before, victim)

    def _token(self) -> int:
        writer = self.fence.last_writer() if self.variant.fenced else None
        return 0 if writer is None else writer.token

    def _writer(self, commit: observer.Commit) -> observer.FenceLine | None:
        return self.fence.writer(f"{self.job.output or self.output}/checkpoints/{commit.query}/commits/{commit.batch}")

    def measure(self, kind: str, at: float, token: int, victim: procs.ReplicaProcesses) -> Takeover:
        """Wait for the first commit with input rows by a successor: a higher token or, without a fence, another process."""

        self.victims[kind] = victim.supervisor.pid

        def successor(commit: observer.Commit) -> bool:
            if commit.seen <= at or not commit.input:
                return False
            if not self.variant.fenced:
                return not procs.lives(victim.jvm)
            deadline = time.monotonic() + 1.0  # the fence logs a write right after it has landed
            while (writer := self._writer(commit)) is None and time.monotonic() < deadline:
                time.sleep(0.01)
            return writer is not None and writer.token > token

        commit = self.watch.first(successor, self.patience_s)
        if commit is None:
            raise Failed(f"no replica committed within {self.patience_s:.0f} s of killing ({kind}); see {self.logs}")
        writer = self._writer(commit)
        return Takeover(
            kind=kind,
            epoch=0 if writer is None else writer.epoch,
            phases=phases_of(self.events.read(), at, commit.seen),
            total_s=commit.seen - at,
            killed_at=at,
            query=commit.query,
            batch=commit.batch,
        )

    def freeze(self) -> tuple[Takeover, procs.ReplicaProcesses, int]:
        """Freeze the leader in the middle of a batch of ``delays``; the takeover, the frozen replica and that batch."""
        before = self._token()
        victim, at, batch = kills.freeze_in_flight(self.leading, self.checkpoints / "delays", self.database)
        return self.measure("frozen", at, before, victim), victim, batch

    # Stopping and going on.

    def suspend_and_resume(self, *, warm: bool) -> tuple[float, Takeover]:
        """Seconds of ``understudy suspend``; and from ``understudy resume`` to rows. Both with the start of the command.

        ``warm``: all replicas have rehearsed before the job is resumed. Otherwise no driver is left.
        """
        victim = self._found_leading()
        before = self._token()
        began = time.monotonic()
        self.ask("suspend", *(["--warm"] if warm else []))
        took = time.monotonic() - began
        if warm:
            # Also the replica that led: it starts a driver as a standby, and takes the processors from the others meanwhile.
            self.wait_for(
                lambda: all(map(self.ready, self.deployment.replicas)), PATIENCE_S, "standbys do not stay warm"
            )
        time.sleep(1.0)
        at = time.time()
        self.ask("resume")
        return took, self.measure("resume_warm" if warm else "resume", at, before, victim)

    def stop_and_start(self) -> Takeover:
        """What stopping and going on is without replicas: the script is ended, and started again once it is gone."""
        victim = self._found_leading()
        loop = victim.supervisor.pid
        os.kill(loop, signal.SIGSTOP)  # which would start it at once
        kills.kill("script", victim)
        self.wait_for(lambda: not procs.lives(victim.jvm), PATIENCE_S, "the script does not end")
        time.sleep(1.0)
        at = time.time()
        os.kill(loop, signal.SIGCONT)
        return self.measure("resume", at, 0, victim)

    def _found_leading(self) -> procs.ReplicaProcesses:
        self.wait_for(lambda: self.leading() is not None, PATIENCE_S, "no leader to stop")
        if (found := self.leading()) is None:
            raise kills.NotThere("the leader went by itself")
        return found

    def ask(self, *words: str) -> None:
        """Raises ``Failed`` where the command does."""
        command = [*understudy(), *words, "--ha-dir", str(self.ha), "--cluster-id", CLUSTER]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 0:
            raise Failed(f"understudy {' '.join(words)}: {done.stderr}")

    def fingerprint(self) -> dict[str, str]:
        """Every log of both checkpoints, every file of the parquet sink, and the rows of every batch in SQLite.

        State files are left out: a leader tidies them in the background whenever it likes.
        """
        logs = [self.checkpoints / query / log for query in QUERIES for log in ("offsets", "commits", "sources")]
        files = observer.fingerprint([*logs, self.output / "delays"])
        return {**files, **observer.sqlite_fingerprint(self.database)}
