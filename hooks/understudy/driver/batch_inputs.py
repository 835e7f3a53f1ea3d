"""What the script has read in batch, such as dimension tables: a standby is stale once that has changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from understudy.driver.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from understudy.driver.pending_query import PendingQuery


class BatchInputs:
    """The JVM remembers files and looks at them again; nothing is there before the script has made its first frame."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inputs: Any = None

    def read(self, frame: DataFrame) -> None:
        """The script has made a frame that may read files in batch."""
        with self._lock:
            if self._inputs is None:
                self._inputs = java_class(frame.sparkSession._jvm, "dev.understudy.rehearsal.BatchInputs")()  # noqa: SLF001
        self._inputs.add(frame._jdf)  # noqa: SLF001

    def used_by(self, query: PendingQuery) -> None:
        """A table that this query joins is a batch input, although the script streams it elsewhere."""
        if self._inputs is not None:
            self._inputs.use(query.writer._jwrite)  # noqa: SLF001

    def changed(self) -> str:
        """What has changed since the script has read it, in words; empty if nothing has."""
        if self._inputs is None:
            return ""
        try:
            place = str(self._inputs.changed())
        except Exception:  # noqa: BLE001 - a store that does not answer now is asked again next time
            return ""
        return f"{place} has changed since the script read it" if place else ""
