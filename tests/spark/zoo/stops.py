"""One script that is suspended and resumed, again and again, and drained at the end; in every third stop a leader is killed.

Compared with the script by itself, over the same input, whose last entry is written by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from testkit import documents, kills, observer
from testkit.command import understudy
from tests.spark.zoo.sinks import Rows
from tests.spark.zoo.trial import CLUSTER, KINDS, PATIENCE, Failed, Trial

#: Scripts whose queries keep state.
STATEFUL = (
    "window_counts",
    "session_windows",
    "order_payments",
    "customer_state_pandas",
    "transform_with_state",
    "deduplicate",
    "three_queries",
    "chained_aggregations",
    "upsert",
    "report_overwritten",
    "kafka_windows",
)
#: 9999-12-31T23:59:59Z in ms.
END_OF_TIME = 253402300799000


class StopTrial(Trial):
    """``outcome.kills`` names the stops; ``outcome.takeovers`` are seconds from ``understudy resume`` to the first commit after it.

    ``suspends`` and ``drains`` are told where no leader was killed, and include the start of the command."""

    def _kill(self, kind: str) -> bool:
        """One stop: at any moment of the next second in which rows come."""
        number = len(self.outcome.kills)
        self._until(lambda: self._leader() is not None, "a leader")
        self._feed(2)
        time.sleep(self.choose.uniform(0.0, 1.0))
        warm = self.choose.random() < 0.5
        stop = "suspend --warm" if warm else "suspend"
        if number % 3 == 2:
            if self._kill_in_the_middle(kind, *stop.split()):
                stop = f"{stop}, {kind}"
            self._until(lambda: self._status() == "SUSPENDED", "the next leader suspends")
        else:
            began = time.monotonic()
            self._ask(*stop.split())
            self.outcome.suspends.append(round(time.monotonic() - began, 3))
        self.outcome.kills.append(stop)
        before = self._written()
        self._feed(1)
        if warm:
            self._until(lambda: bool(self._ready()), "a standby of a suspended job that stands by")
        if moved := observer.changes(before, self._written()):
            raise Failed(f"{self.exhibit.script}: written while the job was SUSPENDED: {moved[:3]}")
        token, at = self._token(), time.time()
        self._ask("resume")
        self._until(lambda: self._token() > token, "a commit after the job was resumed")
        if (landed := self._committed_after(token)) is not None:
            self.outcome.takeovers.append(round(landed - at, 3))
        return True

    def _written(self) -> dict[str, str]:
        fed = (str(self.played / "in"), "broker")
        return {path: digest for path, digest in self._look().items() if not path.startswith(fed)}

    def _kill_in_the_middle(self, kind: str, *words: str) -> bool:
        """False where the leader was gone already."""
        self._until(lambda: bool(self._ready()), "a standby that stands by")
        self._ask(*words, "--no-wait")
        time.sleep(self.choose.uniform(0.0, 0.3))
        if (victim := self._leader()) is None:
            return False
        try:
            kills.kill(kind, victim)
        except (kills.NotThere, ProcessLookupError):
            return False  # it has suspended already
        return True

    def _finish(self) -> None:
        self._until(lambda: self._leader() is not None, "a leader")
        self._feed(3)
        self._until(lambda: self._settled(self.played), "everything is read")
        if self.choose.random() < 1 / 3:
            self._kill_in_the_middle(self.choose.choice(KINDS), "drain")
        else:
            began = time.monotonic()
            self._ask("drain")
            self.outcome.drains.append(round(time.monotonic() - began, 3))
        self._until(self._finished, "the job is FINISHED")

    def _plainly(self) -> dict[str, Rows]:
        """The script by itself over all that was fed, and once more over an entry that drains each query with a watermark."""
        super()._plainly()
        drained: dict[Path, int] = {}
        for name in self.exhibit.queries:
            checkpoint = self.plain / name
            if (batch := drain_by_hand(checkpoint)) is not None:
                drained[checkpoint] = batch
            if (batch is not None) != self._drained_under_replicas(name):
                raise Failed(f"{self.exhibit.script}: {name} was{'' if batch is None else ' not'} drained")
        if drained:
            with self._alone() as process:
                self._until(
                    lambda: all(observer.last_entry(each / "commits") >= batch for each, batch in drained.items()),
                    "the last batches, plainly",
                )
                assert process.poll() is None
        return self._read(self.plain)

    def _drained_under_replicas(self, name: str) -> bool:
        checkpoint = self.played / name
        return observer.batch_watermark_ms(checkpoint, observer.last_entry(checkpoint / "commits")) == END_OF_TIME

    def _status(self) -> str:
        found = [documents.body(text).get("status") for text in self._job().get("entries", {}).values()]
        return next((str(each) for each in found if each), "")

    def _ask(self, *words: str) -> None:
        command = [*understudy(), *words, "--ha-dir", str(self.home / "ha"), "--cluster-id", CLUSTER]
        environment = {**os.environ, **self._environment}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
        )
        if done.returncode != 0:
            raise Failed(f"{self.exhibit.script}: understudy {' '.join(words)}: {done.stderr}")


def drain_by_hand(checkpoint: Path) -> int | None:
    """Append the entry; its batch. ``None`` for a query without a watermark, which has none in any batch."""
    last = observer.last_entry(checkpoint / "offsets")
    if not observer.batch_watermark_ms(checkpoint, last):
        return None
    version, metadata, *offsets = (checkpoint / "offsets" / str(last)).read_text().split("\n")
    changed = json.dumps({**json.loads(metadata), "batchWatermarkMs": END_OF_TIME})
    (checkpoint / "offsets" / str(last + 1)).write_text("\n".join([version, changed, *offsets]))
    return last + 1
