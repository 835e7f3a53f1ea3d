"""What a script gets for a query that it has started, from a standby and from a leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

T = TypeVar("T")


class StandIn(StreamingQuery):
    """A query that starts at the grant. A question about how it runs waits until then; its name and its id are known before.

    Every other method of ``StreamingQuery`` asks its Java object, so the Java object is what waits; a time-out that the script
    gave begins after the wait, at the grant. A leader's restart of a query after a conflict with the previous leader's last write
    stays invisible to the script: no question is answered by the query that met it.
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
                answer = question(current)
            except StreamingQueryException:
                if not self._recover(current):
                    raise
            else:
                # what is another query by now was only started again: to be drained, or after a conflict
                if answer is False or self._current() is current:
                    return answer
