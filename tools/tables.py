"""Tables that are generated from what they describe. tests/infra and tests/unit fail when one is out of date.

.venv/bin/python -m tools.tables        writes them:

values in each chart's README, from its schema (what a value means) and its values.yaml (what it is by default);
keys of the bundle in docs/bundle.md, from Pulumi.yaml
the index of docs/decisions, from the title, date and status of each page
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CHARTS = ROOT / "charts"
BUNDLE = ROOT / "docs" / "bundle.md"
DECISIONS = ROOT / "docs" / "decisions"

_ABOUT_DECISIONS = """# Decisions

A decision that is not obvious has a page: context, decision, consequences, with a date and a status. A decision is never changed later; a
newer one supersedes it. The wording may improve. `python -m tools.tables` writes this list.

| | decision | date | status |
| --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """A directory of ``charts/``."""

    directory: Path

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def readme(self) -> Path:
        return self.directory / "README.md"

    @property
    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "values.schema.json").read_text(encoding="utf-8"))
        return found

    @property
    def values(self) -> dict[str, Any]:
        return self._yaml("values.yaml")

    @property
    def about(self) -> dict[str, Any]:
        return self._yaml("Chart.yaml")

    def _yaml(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.directory / name).read_text(encoding="utf-8"))
        return found


def charts() -> list[Chart]:
    return [Chart(path.parent) for path in sorted(CHARTS.glob("*/Chart.yaml"))]


def with_table(chart: Chart) -> str:
    """The README with the table as it should be."""
    return _replaced(chart.readme, "values", "value", _rows(chart.schema, chart.values, ""))


def with_keys() -> str:
    """docs/bundle.md with the table as it should be."""
    declared = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
    rows = ((name, f"`{json.dumps(each['default'])}`", each["description"]) for name, each in declared.items())
    return _replaced(BUNDLE, "keys", "key", rows)


def with_decisions() -> str:
    """docs/decisions/README.md as it should be."""
    rows = []
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        found = re.match(r"# (\d+)\. (.+)\n\nDate: (.+)\nStatus: (.+)\n", page.read_text(encoding="utf-8"))
        if found is None:
            raise ValueError(f"{page}: a decision begins with its number and title, Date: and Status:")
        number, title, date, status = found.groups()
        rows.append(f"| {number} | [{title}]({page.name}) | {date} | {status} |\n")
    return _ABOUT_DECISIONS + "".join(rows)


def _replaced(page: Path, what: str, first: str, rows: Iterable[tuple[str, str, str]]) -> str:
    begin, end = f"<!-- {what}: written by tools/tables.py -->", f"<!-- end of {what} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    lines = [f"| `{path}` | {default} | {meaning} |" for path, default, meaning in rows]
    table = "\n".join([f"| {first} | default | meaning |", "| --- | --- | --- |", *lines])
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def _rows(schema: Mapping[str, Any], values: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    for key, default in values.items():
        known = schema["properties"][key]
        if "properties" in known:
            yield from _rows(known, default, f"{path}{key}.")
        else:
            shown = json.dumps(default, ensure_ascii=False)
            yield f"{path}{key}", f"`{shown}`", known["description"].replace("|", "\\|")


if __name__ == "__main__":
    for each in charts():
        each.readme.write_text(with_table(each), encoding="utf-8")
        print(each.readme)
    BUNDLE.write_text(with_keys(), encoding="utf-8")
    print(BUNDLE)
    (DECISIONS / "README.md").write_text(with_decisions(), encoding="utf-8")
    print(DECISIONS / "README.md")
