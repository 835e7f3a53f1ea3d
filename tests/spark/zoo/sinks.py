"""What is in a sink, as a stranger finds it: a multiset of rows, each as canonical JSON."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.orc
import pyarrow.parquet

from testkit.observer import files_logged, local_path

Rows = Counter[str]
#: Reads below the directory a script ran in.
Reader = Callable[[Path], Rows]


def files(directory: str) -> Reader:
    """A file sink's rows: of the files that its log names, or of all that are there where a batch writer left them."""

    def read(home: Path) -> Rows:
        root = home / directory
        found: Rows = Counter()
        for path in logged(root) if (root / "_spark_metadata").is_dir() else written(root):
            partition = dict(part.split("=", 1) for part in path.relative_to(root).parent.parts if "=" in part)
            found.update(_text({**row, **partition}) for row in _rows(path))
        return found

    return read


def logged(root: Path) -> set[Path]:
    """What a streaming file sink holds, as its log says."""
    return {Path(local_path(path)) for path in files_logged(root / "_spark_metadata")}


def written(root: Path) -> set[Path]:
    return {
        path
        for path in root.rglob("*")
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(root).parts)
    }


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    name = path.name
    if ".parquet" in name:
        return pyarrow.parquet.ParquetFile(path).read().to_pylist()
    if name.endswith(".orc"):
        return pyarrow.orc.ORCFile(path).read().to_pylist()
    if name.endswith(".csv"):
        with path.open(newline="") as opened:
            return [{str(number): cell for number, cell in enumerate(row)} for row in csv.reader(opened)]
    return [json.loads(line) for line in path.read_text().splitlines()]


def delta(directory: str) -> Reader:
    """A Delta table's rows: of the files that its log has added and not removed. Its log is kept for 30 days, so all of it is there."""

    def read(home: Path) -> Rows:
        root = home / directory
        standing: dict[str, dict[str, str]] = {}
        for entry in sorted((root / "_delta_log").glob("*.json")):
            for action in map(json.loads, entry.read_text().splitlines()):
                if added := action.get("add"):
                    standing[added["path"]] = added["partitionValues"]
                elif removed := action.get("remove"):
                    del standing[removed["path"]]
        found: Rows = Counter()
        for name, partition in standing.items():
            found.update(_text({**row, **partition}) for row in _rows(root / unquote(name)))
        return found

    return read


def lines(name: str) -> Reader:
    return lambda home: Counter((home / name).read_text().splitlines())


def table(database: str, name: str, columns: str = "*") -> Reader:
    """The rows of a table in SQLite."""

    def read(home: Path) -> Rows:
        with closing(sqlite3.connect(f"file:{home / database}?mode=ro", uri=True)) as connection:
            return Counter(_text(row) for row in connection.execute(f"SELECT {columns} FROM {name}"))

    return read


def _text(row: object) -> str:
    return json.dumps(row, sort_keys=True, default=str)
