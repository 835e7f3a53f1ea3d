"""Programs that stand in for others on a PATH."""

from __future__ import annotations

from pathlib import Path


def program(path: Path, script: str = "") -> Path:
    """An executable of these shell commands, or of this whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
