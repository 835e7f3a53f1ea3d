"""What is recorded of the attributes that understudy replaces in other projects.

.venv/bin/python -m tools.spark_patches         writes docs/spark-patches.md, and the hashes of the installed PySpark and Delta
.venv-4.3/bin/python -m tools.spark_patches     the same for the other line; tools/setup.sh spark43 makes that environment

Before recording a hash that has changed, compare the new stock method with its replacement in hooks/understudy/driver/spark_patches.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from understudy.driver.spark_patches.registry import Patch
from understudy.driver.spark_patches.stock import RECORDED, hashes, installed_line, recorded
from understudy.driver.spark_patches.targets import PATCHES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "spark-patches.md"
DELTA = ROOT / "build" / "connectors" / "python"

_HEAD = """# What understudy replaces in PySpark

A script stays as it is, so understudy replaces methods of PySpark, of Delta Lake's Python API and of Python before the script's
first line. Each replacement calls the stock method in the end, except where it refuses. A script that `python` or
`spark-submit` runs meets none of them.

Every replacement is declared in `hooks/understudy/driver/spark_patches/targets.py` and installed by one registry, which refuses to
replace anything twice and can undo everything. For each line below, `stock_hashes.json` holds the hash of the stock method's
text: signature, decorators and body, without the docstring. `tests/unit/test_spark_patches.py` compares them with the installed
PySpark and fails with the name of the patch whose stock method changed.

This page is written by `.venv/bin/python -m tools.spark_patches`.

| replaced | why | lines |
| --- | --- | --- |
"""


def page(patches: tuple[Patch, ...] = PATCHES) -> str:
    """docs/spark-patches.md as it should be. Targets of one class with one reason and the same lines share a row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    known = recorded()
    for patch in patches:
        owner = ".".join([patch.module, *patch.path[:-1]])
        rows.setdefault((owner, patch.why, _lines(patch, known)), []).append(f"`{patch.path[-1]}`")
    return _HEAD + "".join(
        f"| `{owner}`: {', '.join(names)} | {why} | {lines} |\n" for (owner, why, lines), names in rows.items()
    )


def _lines(patch: Patch, known: Mapping[str, Mapping[str, str]]) -> str:
    if patch.library == "Python" and not patch.compiled:
        return "Python"
    if patch.compiled:
        return f"{patch.library} (written in C)"
    return ", ".join(line for line, targets in known.items() if patch.target in targets)


def record() -> None:
    """Replace the hashes of the lines that are installed here, and keep those of the others."""
    known = recorded() if RECORDED.exists() else {}
    for library in ("PySpark", "Delta Lake"):
        if (line := installed_line(library)) is not None:
            known[line] = hashes(patch for patch in PATCHES if patch.library == library)
    text = json.dumps(known, indent=1, sort_keys=True)
    RECORDED.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.append(str(DELTA))  # tools/setup.sh connectors puts it there
    record()
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
