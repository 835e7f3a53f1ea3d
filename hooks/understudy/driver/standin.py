"""What a script holds on a standby instead of a running query, and instead of the list of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

#: What Spark says when two queries wrote one log. A rightful leader meets it when its predecessor's last write landed late.
_CONFLICTS = ("CONCURRENT_STREAM_LOG_UPDATE", "concurrently using", "FileAlreadyExistsException")


def is_log_conflict(error: BaseException) -> bool:
    return any(text in str(error) for text in _CONFLICTS)


class StandIn(StreamingQuery):
    """A query that starts at the grant. The first question anyone asks of it waits until then.

    Every method of ``StreamingQuery`` asks its Java object, so the Java object is what waits; a time-out the script gave begins
    after the wait, which is to say at the grant.
    """

    def __init__(self, real: Callable[[], StreamingQuery], recover: Callable[[StreamingQuery], bool]) -> None:
        self._real = real
        self._recover = recover

    @property
    def _jsq(self) -> Any:
        return self._real()._jsq  # noqa: SLF001

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        while True:
            current = self._real()
            try:
                return current.awaitTermination(timeout)
            except StreamingQueryException:
                # The leader's restart after a conflict with its predecessor's last write is none of the script's business.
                if not self._recover(current):
                    raise
