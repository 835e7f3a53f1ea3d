"""The fence in the driver's JVM, as far as the driver's Python asks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError

from understudy.errors import EnvironmentProblem, IdentityConflict, UnderstudyError

_SHARED = (
    "A checkpoint and a streaming file sink belong to one job; only jobs that append in batches may share a directory. "
    "Choose another directory, or run the job under the cluster id and job id that claimed this one"
)


class FenceClient:
    """Raises py4j's errors where the JVM does not answer, except where a method says otherwise."""

    def __init__(self) -> None:
        self._jvm: Any = None

    def attached(self, jvm: Any) -> None:
        """The JVM is up and has mapped the gate. A script that stops its JVM and starts another one attaches again."""
        self._jvm = jvm

    @property
    def _fence(self) -> Any:
        return self._jvm.dev.understudy.fence.Fence

    def prepare(self, root: str, session: Any) -> None:
        """Make ready what a claim of ``root`` needs, and change nothing there."""
        self._fence.prepare(root, _hadoop_conf(session))

    def claim(self, root: str, hadoop_conf: Any, recorded: int) -> dict[str, Any]:
        return dict(json.loads(self._fence.claim(root, hadoop_conf, recorded)))

    def forget(self, root: str, session: Any) -> None:
        """No query uses ``root`` any longer."""
        self._fence.forget(root, _hadoop_conf(session))

    def count_ungated(self, checkpoint: str, session: Any, *, always: bool) -> None:
        """Count the driver as busy while tasks of this checkpoint's query write: in a batch, or ``always``."""
        self._jvm.dev.understudy.fence.UngatedSinks.count(checkpoint, _hadoop_conf(session), always)

    def quiesce(self, within_ms: int) -> bool:
        """Hold new batches; true once none is in flight, false after ``within_ms``. True while there is no JVM."""
        return self._jvm is None or bool(self._fence.quiesce(within_ms))

    def roots_in_flight(self) -> set[str]:
        """Roots of queries that have written the offsets of a batch and not its commit."""
        return {str(each["root"]) for each in json.loads(self._fence.state())["roots"] if each["in_flight"] >= 0}

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
        case _:
            return IdentityConflict(noted["what"], where=noted["where"], remedy=_SHARED)
