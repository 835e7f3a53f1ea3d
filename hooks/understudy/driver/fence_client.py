"""The fence in the driver's JVM, as far as the driver's Python asks it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming import StreamingQuery

from understudy.driver.java import java_class
from understudy.errors import CheckpointLost, EnvironmentProblem, IdentityConflict, UnderstudyError

_SHARED = (
    "A checkpoint and a streaming file sink belong to one job; only jobs that append in batches may share a directory. "
    "Choose another directory, or run the job under the cluster id and job id that claimed this one"
)


def key_of(root: str | None) -> str:
    """How the fence names a root (``ClaimRegistry.key``): without ``file:`` on a disk. Empty for a query without a lasting checkpoint."""
    return (root or "").removeprefix("file:")


class FenceClient:
    """Raises py4j's errors where the JVM does not answer, except where a method says otherwise."""

    def __init__(self) -> None:
        self._jvm: Any = None
        self._fence: Any = None  # the class in that JVM
        self._lock = threading.Lock()  # guards _holds, and that a JVM which attaches holds
        self._holds = False

    def attached(self, jvm: Any) -> None:
        """The JVM is up and has mapped the gate. A script that stops its JVM and starts another one attaches again."""
        with self._lock:
            self._jvm, self._fence = jvm, java_class(jvm, "dev.understudy.fence.Fence")
            if self._holds:
                self._fence.hold()

    @property
    def attached_to_jvm(self) -> bool:
        return self._jvm is not None

    def prepare(self, root: str, session: Any) -> None:
        """Make ready what a claim of ``root`` needs, and change nothing there."""
        self._fence.prepare(root, _hadoop_conf(session))

    def claim(self, root: str, hadoop_conf: Any, recorded: int, committed: int) -> dict[str, Any]:
        return dict(json.loads(self._fence.claim(root, hadoop_conf, recorded, committed)))

    def forget(self, root: str, session: Any) -> None:
        """No query uses ``root`` any longer."""
        self._fence.forget(root, _hadoop_conf(session))

    def count_ungated(self, checkpoint: str, session: Any, *, always: bool) -> None:
        """Count the driver as busy while tasks of this checkpoint's query write: in a batch, or ``always``."""
        java_class(self._jvm, "dev.understudy.fence.UngatedSinks").count(checkpoint, _hadoop_conf(session), always)

    def quiesce(self, within_ms: int) -> bool:
        """Hold new batches; true once none is in flight, false after ``within_ms``. True while there is no JVM."""
        if self._jvm is not None:
            self._fence.hold()
        return self.await_quiet(within_ms)

    def await_quiet(self, within_ms: int) -> bool:
        """True once no batch is in flight, false after ``within_ms``; may take longer where a store is asked. True while there is no JVM."""
        return self._jvm is None or bool(self._fence.awaitQuiet(within_ms))

    def hold_batches(self) -> None:
        """Hold new batches, also in a JVM that attaches later. Waits for none."""
        with self._lock:
            self._holds = True
            if self._jvm is not None:
                self._fence.hold()

    def release(self) -> None:
        """Let batches begin again that are held. Nothing while there is no JVM."""
        with self._lock:
            self._holds = False
            if self._jvm is not None:
                self._fence.resume()

    def start_pace(self, queries: int) -> Any:
        """When each of so many queries of a takeover may begin; ``None`` if all may at once."""
        return self._fence.startPace(queries)

    def let_all_begin(self) -> None:
        """The code of a first batch waits for queries that have not begun: none of them waits for its turn any more. Nothing while there is no
        JVM.
        """
        if self._jvm is not None:
            self._fence.letAllBegin()

    def has_watermark(self, query: StreamingQuery) -> bool:
        return bool(java_class(self._jvm, "dev.understudy.fence.Watermarks").of(query._jsq))  # noqa: SLF001

    def drained_by(self, root: str, session: Any) -> int:
        """The batch that drains the query of this checkpoint, if it is the last one that was begun there; else -1."""
        return int(self._fence.drainedBy(root, _hadoop_conf(session)))

    def drain(self, root: str, session: Any) -> int:
        """Have the next start of the query of this checkpoint drain it. The batch in which it will; -1 if it has never run one."""
        return int(self._fence.drain(root, _hadoop_conf(session)))

    def roots_in_flight(self) -> set[str]:
        """Roots of queries that have written the offsets of a batch and not its commit."""
        return {str(each["root"]) for each in json.loads(self._fence.state())["roots"] if each["in_flight"] >= 0}

    def committed(self) -> dict[str, int]:
        """Roots with the last batch that was committed there, as far as this JVM has seen. Empty while there is none."""
        if self._jvm is None:
            return {}
        roots = json.loads(self._fence.state())["roots"]
        return {str(each["root"]): int(each["committed"]) for each in roots if each["committed"] >= 0}

    def refusal(self) -> UnderstudyError | None:
        """Why the fence refuses this driver and every one after it; ``None`` if it does not, or cannot be asked."""
        if self._jvm is None:
            return None
        try:
            text = str(self._fence.refusal())
        except (Py4JError, OSError):
            return None
        return _refused(json.loads(text)) if text else None


def _hadoop_conf(session: Any) -> Any:
    return session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001


def _refused(noted: Mapping[str, str]) -> UnderstudyError:
    match noted["kind"]:
        case "unfit":
            remedy = "Use an object store with conditional writes (AWS S3, versitygw), or a local disk"
            return EnvironmentProblem(noted["what"], where=noted["where"], remedy=remedy)
        case "behind":
            return CheckpointLost.of(noted["where"], noted["what"])
        case _:
            return IdentityConflict(noted["what"], where=noted["where"], remedy=_SHARED)
