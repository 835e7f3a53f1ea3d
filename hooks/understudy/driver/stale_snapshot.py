"""Errors that a script which began long ago may meet, and one that begins now would not."""

from __future__ import annotations

import re

#: Conditions and exceptions of Spark, Hadoop and the common stores, by what they say is missing or different.
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


_TRACEBACK = "Traceback (most recent call last):"


def stale_reason(error: BaseException) -> str:
    """What the error says has changed since the script began, in words; empty for an error of another kind.

    By text, for these errors come wrapped: of a task, in a job, in a query, in Python. One taken for what it is not costs the
    script one start.
    """
    text = f"{type(error).__name__}: {error}"
    return next((meaning for meaning, signs in _SIGNS.items() if re.search(signs, text)), "")


def first_line(error: BaseException) -> str:
    """What happened, in a line. Of an error in a Python function that Spark called, that is the end of the traceback within."""
    first, *more = f"{type(error).__name__}: {error}".splitlines()
    if not first.endswith(_TRACEBACK):
        return first
    raised = next((line for line in more if line and not line[0].isspace()), "")
    return f"{first.removesuffix(_TRACEBACK).rstrip()} {raised}"
