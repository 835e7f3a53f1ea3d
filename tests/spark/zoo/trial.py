"""One script, run plainly and under three replicas whose leaders are killed; and what is in its sinks after both.

Seen from outside only: /proc, checkpoints, sinks, and what the replicas say.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from testkit import documents, kills, observer, procs
from testkit.command import understudy
from testkit.deployment import MARK, Deployment, Replica, kill_marked
from testkit.tails import FenceLog
from tests.spark import kafka, quick
from tests.spark.in_force import unfenced
from tests.spark.zoo.exhibits import CONNECTORS, WARM_UP, Exhibit
from tests.spark.zoo.feeds import feed, messages
from tests.spark.zoo.sinks import Rows

SCRIPTS = Path(__file__).parent / "scripts"
HOOKS = Path(__file__).parents[3] / "hooks"
CLUSTER = "zoo"

#: Small. Each trial adds what makes a JVM quick to start: two of three do nothing but rehearse, and all share two cores. After each
#: kill one compiles its code again, for which the second compiler takes half of all the time, and is never done.
SPARK = shlex.split(
    "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
)

#: Topics to write to, by the directory that a script runs in.
_TOPICS = {"plain": "out-plain", "played": "out-played"}

#: Who is killed, and how.
KINDS = ("jvm", "driver", "supervisor", "tree", "sigterm")

#: A step of a trial with quick JVMs that takes longer than this has failed, in seconds.
PATIENCE = 150.0
#: The same for everything at once, from the first batch on, in a cold JVM.
PLAINLY = 600.0

#: Nothing is committed for so long after everything was read: then that was all, in seconds.
_QUIET = 2.5


#: A leader that is told to stop may still take in what was meant for its successor, which is then fed again, after so many seconds;
#: what that took says nothing of the takeover.
_MORE = 10.0


class Failed(Exception):
    """The script did not do under replicas what it does plainly."""


@dataclass(slots=True)
class Outcome:
    """What came of it. ``takeovers``: seconds from each kill to the first commit of a successor, in the order of ``kills``.

    ``suspends``, ``drains``: seconds that these commands took.
    """

    script: str
    how: str = ""
    held: str = ""
    kills: list[str] = field(default_factory=list)
    takeovers: list[float] = field(default_factory=list)
    suspends: list[float] = field(default_factory=list)
    drains: list[float] = field(default_factory=list)
    rows: int = 0
    lost: int = 0
    repeated: int = 0
    touched: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """What came of running the same script once more."""
        self.how, self.held = other.how, other.held
        for name in ("kills", "takeovers", "suspends", "drains", "rows", "lost", "repeated", "touched"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Trial:
    """JVMs and rehearsals are as short as comparing sinks allows: their takeovers are no measurement."""

    #: What a standby rehearses, in words of the command.
    rehearsals: ClassVar[tuple[str, ...]] = ("--rehearse-rounds", "2", "--rehearse-every", "5")
    #: Rounds after which a standby is as ready as it is waited for.
    rounds = 2
    #: How many of the two standbys are as ready before a kill.
    standbys = 1
    #: A step that takes longer than this has failed, in seconds.
    patience = PATIENCE
    #: Steps of the feed before the first replica starts.
    first_steps = 8

    def __init__(self, exhibit: Exhibit, home: Path, choose: random.Random) -> None:
        self.exhibit = exhibit
        self.home = home
        self.choose = choose
        self.steps = 0
        self.plain, self.played = home / "plain", home / "played"
        for place in (self.plain, self.played):
            (place / "out").mkdir(parents=True)
            for source in SCRIPTS.glob(f"{exhibit.script}*.py"):
                shutil.copy(source, place)
        self.outcome = Outcome(exhibit.script)
        self._environment = {
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(HOOKS), str(CONNECTORS / "python"), os.environ.get("PYTHONPATH")])
            ),
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": sys.executable,
            "UNDERSTUDY_LOG": "json",
        }
        self._spark = [*SPARK, "--driver-java-options", self.java(), *exhibit.submit()]
        self._parties: list[Deployment] = []
        self._broker: kafka.Broker | None = None
        self._fence = FenceLog(home / "ha" / CLUSTER / "log")

    @staticmethod
    def java() -> str:
        """Options for a driver's JVM."""
        return quick.java_options()

    def run(self, times: int) -> Outcome:
        """Raises ``Failed`` when a process does not come to an end; what the sinks hold is told in the outcome."""
        with ExitStack() as held:
            if self.exhibit.messages:
                self._broker = held.enter_context(kafka.broker(self.home))
                for topic in ("orders", *_TOPICS.values()):
                    self._broker.make(topic)
                self._environment["KAFKA"] = self._broker.address
            return self._run(times)

    def _run(self, times: int) -> Outcome:
        self._replicated(times)
        expected, found = self._plainly(), self._read(self.played)
        for name, rows in expected.items():
            if not rows:
                raise Failed(
                    f"{self.exhibit.script}: a plain run leaves nothing in {name}: there is nothing to compare"
                )
            self.outcome.rows += rows.total()
            self.outcome.lost += (rows - found[name]).total()
            self.outcome.repeated += (found[name] - rows).total()
        return self.outcome

    # Under replicas.

    def _replicated(self, times: int) -> None:
        began = time.time()
        self._feed(self.first_steps)
        try:
            self._join("first", 1)
            if self.exhibit.asked:
                self._until(lambda: self._settled(self.played), "the first rows")
                before = self._look()
                self._join("others", 2)
                self._until(lambda: len(self._ready()) == 2, "two standbys that stand by")
                self.outcome.touched = observer.changes(before, self._look())
                standing = self._ready()[0]
                self.outcome.how, self.outcome.held = standing.how, standing.held
            else:
                self._join("others", 2)
            for _ in range(times):
                if not self._kill(self.choose.choice(KINDS)):
                    break
            self._finish()
        finally:
            for party in self._parties:
                party.stop()
        if past := unfenced(self.played, began):
            raise Failed(f"{self.exhibit.script}: written past the fence: {past[0]}")

    def _kill(self, kind: str) -> bool:
        """One leader less, at any moment of the next second in which rows come. False if the job is over."""
        if self.exhibit.asked:
            self._until(lambda: len(self._ready()) >= self.standbys, "a standby that stands by")
            self._feed(2)
            time.sleep(self.choose.uniform(0.0, 1.0))
        else:
            self._wait_in_a_job_that_ends()
        if self._finished():
            return False
        if (victim := self._leader()) is None:
            return True
        before = self._token()
        try:
            at = kills.kill(kind, victim)
        except (kills.NotThere, ProcessLookupError):
            return True
        self.outcome.kills.append(kind)
        if self.exhibit.queries:
            began, fed = time.monotonic(), 0

            def succeeded() -> bool:
                nonlocal fed
                if self.exhibit.asked and time.monotonic() >= began + fed * _MORE:
                    self._feed(1)
                    fed += 1
                return self._token() > before or self._finished()

            self._until(succeeded, f"a successor's commit after {kind}")
            late = fed > 1 and self._committed_since(
                at, before
            )  # a dying leader took the step: its successor had none to commit
            if (landed := self._committed_after(before)) is not None and not late:
                self.outcome.takeovers.append(round(landed - at, 3))
        return True

    def _wait_in_a_job_that_ends(self) -> None:
        """Kills come while its replicas start: by then it may be over."""
        time.sleep(self.choose.uniform(0.0, 8.0))

    def _finish(self) -> None:
        if self.exhibit.asked:
            self._feed(3)
        if self.exhibit.told_by:
            (self.played / self.exhibit.told_by).touch()
        if self.exhibit.ends:
            self._until(self._finished, "the job is FINISHED")
            ended = self._job()
            time.sleep(_QUIET)
            if self._job() != ended:
                raise Failed(f"{self.exhibit.script}: something has happened to the job after its end: {self._job()}")
        else:
            self._until(lambda: self._settled(self.played), "everything is read")

    def _join(self, name: str, count: int) -> None:
        ids = ["--ha-dir", str(self.home / "ha"), "--cluster-id", CLUSTER]
        restarts = ["--restart-strategy", "fixed-delay", "--restart-attempts", "500"]
        options = ["--profile", "fast", *restarts, *self.rehearsals]
        command = [*understudy(), "run", *ids, *options, *self._spark, *self._script]
        party = Deployment(
            lambda _: ["env", "-C", str(self.played), *command],
            count,
            self.home / "logs" / name,
            self._environment | {"TOPIC": _TOPICS["played"]},
        )
        self._parties.append(party)
        party.start()

    @property
    def _script(self) -> list[str]:
        return [f"{self.exhibit.script}.py", *self.exhibit.arguments]

    @property
    def _replicas(self) -> list[Replica]:
        return [replica for party in self._parties for replica in party.replicas]

    def _leader(self) -> procs.ReplicaProcesses | None:
        """The leader's processes, once it is known which they are."""
        pids = {each.pid for each in self._standings() if each.role == "leader"}
        found = [replica.processes() for replica in self._replicas if replica.pid in pids]
        return found[0] if found else None

    def _standings(self) -> list[documents.Standing]:
        alive = {replica.pid for replica in self._replicas}
        home = self.home / "ha" / CLUSTER
        return [each for each in documents.standings(home, CLUSTER) if each.pid in alive]

    def _ready(self) -> list[documents.Standing]:
        """Standbys that have rehearsed, if only a query that is none of the script's; those of a batch job wait."""
        waits = [each for each in self._standings() if each.role == "standby"]
        if not self.exhibit.how:
            return [each for each in waits if each.held]
        return [each for each in waits if each.rounds >= self.rounds and (each.rehearsed or each.how == WARM_UP)]

    def _finished(self) -> bool:
        entries: dict[str, Any] = self._job().get("entries", {})
        return any(documents.body(text).get("status") == "FINISHED" for text in entries.values())

    def _job(self) -> dict[str, Any]:
        return documents.newest(self.home / "ha" / CLUSTER / "documents", f"{CLUSTER}-{CLUSTER}") or {}

    def _token(self) -> int:
        self._fence.read()
        return max((line.token for line in self._commits()), default=0)

    def _commits(self) -> Iterator[observer.FenceLine]:
        for line in self._fence.lines:
            if line.op == "publish" and line.outcome == "accepted" and "/commits/" in line.path:
                yield line

    def _committed_after(self, token: int) -> float | None:
        return min((line.at for line in self._commits() if line.token > token), default=None)

    def _committed_since(self, at: float, token: int) -> bool:
        return any(line.at > at and line.token <= token for line in self._commits())

    def _look(self) -> dict[str, str]:
        """Everything a standby could have changed. State files are left out: a leader tidies them whenever it likes."""
        found = observer.fingerprint([self.played])
        if self._broker is not None:
            found["broker"] = str(self._broker.look())
        return {path: digest for path, digest in found.items() if "/state/" not in path and "__pycache__" not in path}

    # Plainly.

    def _plainly(self) -> dict[str, Rows]:
        """The script by itself, over all that was fed."""
        shutil.rmtree(self.plain / "in", ignore_errors=True)
        shutil.copytree(self.played / "in", self.plain / "in")
        with self._alone() as process:
            if self.exhibit.ends:
                self._until(lambda: process.poll() is not None, "the script's end, plainly", PLAINLY)
                if process.returncode != 0:
                    raise Failed(f"plainly it ends with {process.returncode}; see {self.home}/logs")
            else:
                self._until(
                    lambda: self._settled(self.plain) or process.poll() is not None, "everything read, plainly", PLAINLY
                )
                if not self._settled(self.plain):  # what it left would be all that anything is compared with
                    raise Failed(f"plainly it ends with {process.returncode}; see {self.home}/logs")
        return self._read(self.plain)

    @contextmanager
    def _alone(self) -> Iterator[subprocess.Popen[bytes]]:
        run = f"plain-{self.exhibit.script}-{os.getpid()}"
        submit = shlex.join([*self._spark, "pyspark-shell"])
        command = ["env", "-C", str(self.plain), sys.executable, *self._script]
        alone = Replica(0, self.home / "logs" / "plain")
        alone.start(
            command,
            {**os.environ, **self._environment, "TOPIC": _TOPICS["plain"], MARK: run, "PYSPARK_SUBMIT_ARGS": submit},
        )
        assert alone.process is not None
        try:
            yield alone.process
        finally:
            kill_marked(run)
            alone.process.wait()
            alone.close()

    # Both.

    def _feed(self, steps: int) -> None:
        for _ in range(steps):
            feed(self.played, self.steps)
            if self._broker is not None:
                self._broker.send("orders", messages(self.steps))
            self.steps += 1

    def _settled(self, place: Path) -> bool:
        """Everything fed is in a committed batch of every query, and nothing is going on any more."""
        for name, each in self.exhibit.queries.items():
            checkpoint = place / name
            if self.exhibit.read(checkpoint) < each * self.steps or observer.in_flight(checkpoint) is not None:
                return False
            last = observer.last_entry(checkpoint / "commits")
            if last < 0 or time.time() - (checkpoint / "commits" / str(last)).stat().st_mtime < _QUIET:
                return False
        return True

    def _read(self, place: Path) -> dict[str, Rows]:
        found = {name: read(place) for name, read in self.exhibit.sinks.items()}
        if self._broker is not None and not found:
            found["topic"] = Counter(self._broker.messages(_TOPICS[place.name]))
        return found

    def _until(self, condition: Callable[[], bool], what: str, within: float | None = None) -> None:
        within = within or self.patience
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(f"{self.exhibit.script}: {what}: not within {within:.0f} s; see {self.home}")
            time.sleep(0.05)
