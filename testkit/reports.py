"""What a benchmark leaves: one JSON file, by default below ``build/bench``, and what its figures were measured on."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

OUT = Path("build/bench")


def made(directory: Path) -> Path:
    """Absolute, and there before hours are spent on what it's to hold."""
    found = directory.resolve()
    found.mkdir(parents=True, exist_ok=True)
    return found


def provenance() -> dict[str, str]:
    """Figures from elsewhere, or from long ago, are no comparison."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def write(path: Path, report: object) -> None:
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
