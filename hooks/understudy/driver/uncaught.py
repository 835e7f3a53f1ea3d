"""What the interpreter does with an exception that ends a script: ``sys.excepthook``, which a script may have replaced."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import TracebackType

#: Whose frames stand above the script's own, where the interpreter has none.
_ABOVE = (f"{Path(__file__).parent}/", "<frozen ")


def report(error: BaseException) -> None:
    """Hand ``error`` to ``sys.excepthook`` with a traceback that begins in the script. A hook that fails is reported with what it was for."""
    error.__traceback__ = _from_the_script(error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001 - it has the error itself as its context
        traceback.print_exc()


def _from_the_script(trace: TracebackType | None) -> TracebackType | None:
    """None where the script has no frame: of its syntax, the interpreter shows the line alone."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_ABOVE):
        trace = trace.tb_next
    return trace
