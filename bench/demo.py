"""The demo: a Spark job loses its driver again and again, and not a row (``make demo``).

Three replicas run ``examples/flights.py`` over 336,776 real flights. Each way of dying is tried on the leader of the moment, one after
the other; in between the dead replica is started again and the standbys rehearse. At the end every sink is compared row by
row with one batch query over the same files. Exit code 0 only if nothing is lost, repeated or overwritten.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from bench import timeline
from bench.local_flights import PATIENCE_S, Failed, LocalFlights
from bench.screen import Screen, screen
from bench.variants import UNDERSTUDY
from testkit import kills, observer, procs, reports
from testkit.comparison import Comparison, verify_apart
from testkit.feeds import DAYS, FLIGHTS, load
from testkit.phases import Takeover

#: Days per second: enough during a kill that rows always wait for the new leader; few in between, a year has only 365.
BUSY, CALM = 3.0, 0.4

#: Leaders that are frozen, one after the other, until one of them meets the fence: on a busy machine one may end by itself before that.
FREEZES = 3

SENTENCES = {
    "jvm": "SIGKILL to the leader's JVM",
    "driver": "SIGKILL to the leader's Python driver",
    "supervisor": "SIGKILL to the leader's supervisor alone",
    "tree": "SIGKILL to every process of the leader",
    "frozen": "SIGSTOP to the leader with a batch in flight, past its lease, then SIGCONT",
    "sigterm": "SIGTERM to the leader, as in a rollout",
}


@dataclass(slots=True)
class Findings:
    """Everything the report is made of."""

    takeovers: list[Takeover] = field(default_factory=list)
    thaw_changes: list[str] = field(default_factory=list)
    thawed_at: float | None = None
    before_thaw: frozenset[str] = frozenset()
    met_the_fence: bool = False
    compared: list[Comparison] = field(default_factory=list)
    refused: int = 0
    accepted: int = 0
    epochs: list[int] = field(default_factory=list)
    problem: str = ""

    def ok(self, kinds: Sequence[str]) -> bool:
        return (
            not self.problem
            and [takeover.kind for takeover in self.takeovers] == list(kinds)
            and not self.thaw_changes
            and ("frozen" not in kinds or self.met_the_fence)
            and self.accepted == 0
            and len(self.compared) == 2
            and all(each.same and each.flights_expected == FLIGHTS for each in self.compared)
        )

    def written_at(self, path: str) -> float | None:
        """When a write landed; None if nothing tells.

        A file that was gone when everything stood still before the thaw was removed by the leader before it froze: only
        the line in its log came afterwards.
        """
        plain = observer.local_path(path)
        if self.before_thaw and plain not in self.before_thaw and not Path(plain).exists():
            return 0.0
        return observer.modified_at(path)

    def report(self, kinds: Sequence[str]) -> dict[str, object]:
        return {
            "ok": self.ok(kinds),
            "rows_expected": FLIGHTS,
            "rows_lost": sum(each.lost for each in self.compared),
            "rows_repeated": sum(each.repeated for each in self.compared),
            "stale_writes_refused": self.refused,
            "stale_writes_accepted": self.accepted,
            "epochs": self.epochs,
            "takeovers": [takeover.as_json() for takeover in self.takeovers],
        }


def play(flights: LocalFlights, kinds: Sequence[str], seed: int, show: Screen, findings: Findings) -> None:
    """Start, kill in every way, feed the rest of the year and the closing file, and wait until every window is written."""
    choose = random.Random(seed)
    feed = flights.feed
    show.say("starting three replicas of examples/flights.py")
    feed.per_second = CALM
    flights.start()
    first = flights.watch.first(lambda commit: commit.input, 150)
    if first is None:
        raise Failed(f"no replica committed a batch within 150 s; see {flights.logs}")
    show.say("a replica leads and commits; waiting until the others have rehearsed")
    for kind in kinds:
        ready(flights, show)
        feed.per_second = BUSY
        show.killing(kind, SENTENCES[kind])
        takeover = frozen(flights, show, findings) if kind == "frozen" else flights.kill(kind, choose)
        findings.takeovers.append(takeover)
        show.takeover(takeover)
        feed.per_second = CALM
    show.say(f"feeding the last {feed.left} days and the file that ends every window")
    feed.feed_now(DAYS)
    feed.close()
    flights.wait_for(flights.closed, 300, "the last windows were not written")


def ready(flights: LocalFlights, show: Screen) -> None:
    """Both standbys rehearsed; one is enough if the other takes longer (two cores run three JVMs)."""
    if not flights.wait_for(flights.all_ready, 25, "standbys", must=False):
        show.say("one standby is still rehearsing; going on with the other")
        flights.wait_for(
            lambda: any(flights.ready(replica) for replica in flights.standbys()), 120, "no standby has rehearsed"
        )
    time.sleep(0.5)


def frozen(flights: LocalFlights, show: Screen, findings: Findings) -> Takeover:
    """The last of up to ``FREEZES`` takeovers from a frozen leader: until one that is thawed meets the fence before it ends by itself."""
    takeover = frozen_once(flights, show, findings)
    for _ in range(FREEZES - 1):
        if findings.met_the_fence:
            break
        show.say("it ended before its write could be refused: the next leader is frozen")
        flights.feed.per_second = CALM
        ready(flights, show)
        flights.feed.per_second = BUSY
        takeover = frozen_once(flights, show, findings)
    return takeover


def frozen_once(flights: LocalFlights, show: Screen, findings: Findings) -> Takeover:
    """Freeze, take over, let everything come to rest, thaw, and see that the thawed leader changed nothing."""
    takeover, victim, batch = flights.freeze()
    show.say(
        f"batch {batch} of delays was in offsets/ and not in commits/ when the leader froze; a new leader has committed"
    )
    flights.feed.per_second = 0
    flights.wait_for(flights.at_rest, PATIENCE_S, "the new leader did not catch up")
    before = flights.fingerprint()
    findings.before_thaw = frozenset(str(path) for path in flights.output.rglob("*"))
    known = len(observer.stale_refused(flights.fence.in_order()))
    findings.thawed_at = time.time()
    findings.met_the_fence = kills.thaw_jvm_first(
        victim, lambda: len(observer.stale_refused(flights.fence.in_order())) > known, patience_s=20.0
    )
    show.say("thawed it: " + ("its late write was refused" if findings.met_the_fence else "it did not get to write"))
    gone = flights.wait_for(lambda: not procs.lives(victim.jvm), 10, "thawed JVM", must=False)
    time.sleep(0.5)
    changes = observer.changes(before, flights.fingerprint())
    if not gone:
        changes.append("the stale JVM is still alive 10 s after the thaw")
    findings.thaw_changes += changes
    show.say(f"logs and sinks before and after the thaw: {'CHANGED' if changes else 'not a byte differs'}")
    return takeover


def judge(flights: LocalFlights, findings: Findings, show: Screen) -> None:
    """Count what the fence saw, and compare the sinks; the replicas have stopped."""
    lines = flights.fence.in_order()
    findings.refused = len(observer.stale_refused(lines))
    findings.accepted = len(observer.stale_accepted(lines, findings.written_at))
    findings.epochs = sorted({line.epoch for line in lines if line.outcome == "accepted" and line.op == "publish"})
    show.say("comparing every sink row by row with one batch query over the same files")
    findings.compared = verify_apart(flights.input, flights.output, flights.logs / "verify.log")
    for each in findings.compared:
        show.compared(each)


def interrupted(number: int, frame: FrameType | None) -> None:
    del frame
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="report, picture and the run's own files")
    parser.add_argument("--kinds", default=",".join(kills.KINDS), help="what to do to the leader, in this order")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments of the kills")
    options = parser.parse_args()
    kinds: list[str] = options.kinds.split(",")
    out = reports.made(options.out)
    signal.signal(signal.SIGTERM, interrupted)
    began = time.monotonic()

    findings = Findings()
    flights = LocalFlights(UNDERSTUDY, out / "run", load(), limit=DAYS)
    with screen(flights) as show:
        show.say(f"336,776 flights read; the kills' moments come from --seed {options.seed}")
        try:
            play(flights, kinds, options.seed, show, findings)
        except (Failed, kills.NotThere) as problem:
            findings.problem = str(problem)
            show.say(f"FAILED: {problem}")
        except KeyboardInterrupt:
            show.say("stopping: every process of this run is ended")
            flights.stop()
            return 130
        finally:
            flights.stop()
        if not findings.problem:
            judge(flights, findings, show)
        report = {**findings.report(kinds), **reports.provenance()}
        reports.write(out / "report.json", report)
        timeline.draw(timeline.collect(flights, findings.takeovers, findings.thawed_at), out / "timeline.png")
        show.verdict(report, findings.thaw_changes, out, time.monotonic() - began)
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
