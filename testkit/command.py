"""The command under test, as a user calls it."""

from __future__ import annotations

import sys
from pathlib import Path


def understudy() -> list[str]:
    """The command next to this Python; in a checkout that was not installed, its module."""
    script = Path(sys.executable).parent / "understudy"
    return [str(script)] if script.exists() else [sys.executable, "-m", "understudy.cli.main"]
