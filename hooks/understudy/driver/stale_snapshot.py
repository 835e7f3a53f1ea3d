"""Errors that a script which began long ago may meet, and one that begins now would not."""

from __future__ import annotations

import re
from collections.abc import Callable

from understudy.driver.error_text import first_line
from understudy.protocol.messages import Message, StaleSnapshot

#: Conditions and exceptions of Spark, Hadoop and the common stores, by what they report as missing or different.
_SIGNS = {
    "a file or table is missing": (
        "FILE_NOT_EXIST|PATH_NOT_FOUND|FileNotFoundException|NoSuchFileException|NoSuchKey|NoSuchBucket"
        "|TABLE_OR_VIEW_NOT_FOUND|NoSuchTableException|CANNOT_READ_FILE_FOOTER"
    ),
    "a schema is another": (
        "UNRESOLVED_COLUMN|SchemaColumnConvertNotSupported|INCOMPATIBLE_(?:VIEW_)?SCHEMA|SCHEMA_MISMATCH"
        "|PARQUET_COLUMN_DATA_TYPE_MISMATCH|DELTA_SCHEMA_CHANGED|COLUMN_NOT_DEFINED"
    ),
    "a credential is refused": (
        "AccessDenied|ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|TokenExpired"
        "|Status Code: 40[13]|Unauthorized|SaslAuthenticationException|password authentication failed"
    ),
}


def stale_reason(error: BaseException) -> str:
    """What the error says has changed since the script began, in words; empty for an error of another kind.

    Judged by text: these errors come wrapped, of a task, in a job, in a query, in Python. A wrong judgement costs the script one
    start.
    """
    text = f"{type(error).__name__}: {error}"
    return next((meaning for meaning, signs in _SIGNS.items() if re.search(signs, text)), "")


class StaleSnapshotReporter:
    """Tells the supervisor that the script's view is stale: at most once, between a takeover and the end of its first batches."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._possible = False  # stood by, took over, and has reported nothing yet
        self._first_batches = False
        self._committed = False

    def takeover_begins(self, *, waited: bool) -> None:
        """``waited``: part of the script waited for the grant, so what it has read may have changed since."""
        self._possible, self._first_batches, self._committed = waited, True, False

    def first_batches_over(self) -> None:
        """Of all queries, or they are not waited for any more."""
        self._first_batches = False

    def committed(self) -> None:
        self._committed = True

    def report_stale(self, error: BaseException) -> None:
        """Report ``error`` if a script that begins now would not meet it."""
        if self._possible and (self._first_batches or not self._committed) and (meaning := stale_reason(error)):
            self._possible = False
            self._send(StaleSnapshot(f"{meaning}: {first_line(error)}"))
