"""An exception in one line."""

from __future__ import annotations

_TRACEBACK = "Traceback (most recent call last):"


def first_line(error: BaseException) -> str:
    """What happened, in a line. Of an error in a Python function that Spark called, that is the end of the traceback within."""
    first, *more = f"{type(error).__name__}: {error}".splitlines()
    if not first.endswith(_TRACEBACK):
        return first
    raised = next((line for line in more if line and not line[0].isspace()), "")
    return f"{first.removesuffix(_TRACEBACK).rstrip()} {raised}"
