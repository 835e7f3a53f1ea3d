"""The command under test, as a user calls it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def understudy() -> list[str]:
    """The command next to this Python; in a checkout that was not installed, its module."""
    script = Path(sys.executable).parent / "understudy"
    return [str(script)] if script.exists() else [sys.executable, "-m", "understudy.cli.main"]


def confs(settings: Mapping[str, str]) -> list[str]:
    """Settings of Spark as words for it, which spark-submit knows, too."""
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
