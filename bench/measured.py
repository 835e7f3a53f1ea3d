"""Writes docs/measured.md from docs/measured/*.json.

python -m bench.measured                        the page alone
python -m bench.measured 01-takeover-machine    first updates that table from the report of its benchmark or demo, which the table names

A figure without a recorded range says so. A row that a report does not contain keeps its figures, and says when they were taken.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "docs" / "measured"
PAGE = ROOT / "docs" / "measured.md"

#: What a table may say once for all of its rows, and how the page calls it.
_FACTS = {"command": "Command", "date": "Date", "machine": "Machine", "trials": "Trials"}
#: What a row may say instead.
_OWN = ("date", "machine", "note")

_HEAD = """<!-- Written by bench/measured.py from docs/measured/*.json. -->

# Measurements

Every figure that this documentation gives is here, with its date, machine and command. A cell is the median, with the range in
parentheses. Compare figures of one run only: another machine, or the same one on another day, gives other figures.
`python -m bench.measured 01-takeover-machine` replaces the figures of a table with those of the last `make bench` here.
"""


def number(value: float) -> str:
    """An integer as it is; another number with two or three significant digits and no exponent."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    if len(text.strip("-").lstrip("0.")) == 1:
        return f"{text}0" if "." in text else f"{text}.0"
    return text


def cell(figure: Mapping[str, Any] | None, unit: str) -> str:
    """One figure as the page shows it. Raises ``ValueError`` for a form that the page does not know."""
    if figure is None:
        return "not measured"
    unit = figure.get("unit", unit)
    match figure:
        case {"text": str(text)}:
            return text
        case {"median": median, "min": low, "max": high}:
            return f"{number(median)} {unit} ({number(low)}–{number(high)})"
        case {"median": median}:
            return f"{number(median)} {unit} (range not recorded)"
        case {"min": low, "max": high}:
            return f"{number(low)}–{number(high)} {unit}"
        case {"value": value}:
            return f"{number(value)} {unit}"
        case _:
            raise ValueError(f"not a figure: {figure}")


def section(table: Mapping[str, Any]) -> str:
    """One table with its heading and the facts that hold for all of its rows."""
    facts = " ".join(f"{name}: {_fact(key, table[key])}." for key, name in _FACTS.items() if key in table)
    own = [key for key in _OWN if any(key in row for row in table["rows"])]
    heads = [table["heading"], *(column["name"] for column in table["columns"]), *own]
    rows = ([row["name"], *_cells(table, row), *(row.get(key, "") for key in own)] for row in table["rows"])
    lines = [f"## {table['title']}", "", table["about"], *(["", facts] if facts else []), "", *_grid(heads, rows)]
    return "\n".join(lines)


def _fact(key: str, text: str) -> str:
    plain = key != "command" or "`" in text or text == "not recorded"
    return text if plain else ", ".join(f"`{each}`" for each in text.split("; "))


def _cells(table: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    return [cell(figure, table.get("unit", "")) for figure in row["cells"]]


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def page(tables: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join([_HEAD, *(f"{section(table)}\n" for table in tables)])


def tables() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(TABLES.glob("*.json"))]


def updated(table: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the figures of a report of takeovers, its date and its machine.

    A benchmark's report has ``kinds``: summaries by kind of failure and variant. The demo's has ``takeovers``: one per kind, by phase.
    """
    if "takeovers" in report:
        found = {each["kind"]: each for each in report["takeovers"]}
        rows = [_phases(row, found.get(row["kind"], {}), table["columns"]) for row in table["rows"]]
        return {**table, "date": report["date"], "machine": report["machine"], "rows": rows}
    variants = [column["variant"] for column in table["columns"]]
    rows = [_updated_row(table, row, report["kinds"].get(row["kind"], {}), variants) for row in table["rows"]]
    counts = {each["n"] for by_variant in report["kinds"].values() for each in by_variant.values()}
    trials = f"{'–'.join(str(each) for each in sorted({min(counts), max(counts)}))} per cell"
    return {**table, "date": report["date"], "machine": report["machine"], "trials": trials, "rows": rows}


def _phases(
    row: Mapping[str, Any], takeover: Mapping[str, Any], columns: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    seconds = [takeover.get(column["phase"]) for column in columns]
    return {**row, "cells": [None if each is None else {"value": each} for each in seconds]}


def _updated_row(
    table: Mapping[str, Any], row: Mapping[str, Any], found: Mapping[str, Any], variants: Sequence[str]
) -> dict[str, Any]:
    if not found:
        return {"date": table["date"], "machine": table["machine"], **row}
    cells = [_taken(found.get(variant), old) for variant, old in zip(variants, row["cells"], strict=True)]
    return {"name": row["name"], "kind": row["kind"], "cells": cells}


def _taken(summary: Mapping[str, Any] | None, old: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if summary is not None:
        return {"median": summary["p50_s"], "min": summary["min_s"], "max": summary["max_s"]}
    return old if old is not None and "text" in old else None


def main(names: Sequence[str]) -> None:
    for name in names:
        path = TABLES / f"{name}.json"
        table = json.loads(path.read_text(encoding="utf-8"))
        report = json.loads((ROOT / table["report"]).read_text(encoding="utf-8"))
        path.write_text(json.dumps(updated(table, report), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(tables()), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
