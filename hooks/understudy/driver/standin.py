"""What a script holds on a standby instead of a running query, and instead of the list of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

T = TypeVar("T")

#: What is said when two queries wrote one log. A rightful leader meets it when its predecessor's last write landed late: in the
#: checkpoint, in a file sink's log, or in a Delta table. `tests/unit/test_standin.py` compares it with Spark's own error classes.
_CONFLICTS = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Concurrent update to the log",
    "concurrently using",
    "FileAlreadyExistsException",
    "Race while writing batch",  # _spark_metadata/N came after the sink had looked for it
    # the transaction of the same query and batch, or what Delta notices of it before that: rows it added, files it replaced,
    # the table it created
    "DELTA_CONCURRENT_TRANSACTION",
    "ConcurrentTransactionException",
    "DELTA_CONCURRENT_APPEND",
    "DELTA_CONCURRENT_DELETE_DELETE",
    "DELTA_CONCURRENT_DELETE_READ",
    "DELTA_CONCURRENT_WRITE",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "MetadataChangedException",
    "ProtocolChangedException",
)


def is_log_conflict(error: BaseException) -> bool:
    return any(text in str(error) for text in _CONFLICTS)


class StandIn(StreamingQuery):
    """A query that starts at the grant. A question about how it runs waits until then; its name and its id are known before.

    Every other method of ``StreamingQuery`` asks its Java object, so the Java object is what waits; a time-out the script gave begins
    after the wait, which is to say at the grant. The leader's restart of a query after a conflict with its predecessor's last write
    is none of the script's business: no question is answered by the query that met it.
    """

    def __init__(
        self,
        name: str | None,
        query_id: Callable[[], str],
        current: Callable[[], StreamingQuery],
        recover: Callable[[StreamingQuery], bool],
    ) -> None:
        self._name = name
        self._query_id = query_id
        self._current = current
        self._recover = recover

    @property
    def name(self) -> str:
        return self._name  # type: ignore[return-value] # PySpark's annotation leaves out that it may be None

    @property
    def id(self) -> str:
        return self._query_id()

    @property
    def _jsq(self) -> Any:
        current = self._current()
        if not current.isActive and self._recover(current):
            current = self._current()
        return current._jsq  # noqa: SLF001

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        return self._asked(lambda query: query.awaitTermination(timeout))

    def processAllAvailable(self) -> None:  # noqa: N802
        self._asked(lambda query: query.processAllAvailable())

    def _asked(self, question: Callable[[StreamingQuery], T]) -> T:
        """The answer of a question that takes so long that the query may fail meanwhile."""
        while True:
            current = self._current()
            try:
                return question(current)
            except StreamingQueryException:
                if not self._recover(current):
                    raise
