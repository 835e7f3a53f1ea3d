"""The table of values in each chart's README, from its schema (what a value means) and its values.yaml (what it is by default).

.venv/bin/python -m tools.chart_tables        writes them; tests/infra/test_charts.py fails when they are not up to date
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHARTS = Path(__file__).resolve().parents[1] / "charts"

_BEGIN, _END = "<!-- values: written by tools/chart_tables.py -->", "<!-- end of values -->"


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
    text = chart.readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    rows = [f"| `{path}` | {default} | {meaning} |" for path, default, meaning in _rows(chart.schema, chart.values, "")]
    table = "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *rows])
    return f"{before}{_BEGIN}\n\n{table}\n\n{_END}{after}"


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
