"""Tables that are generated from what they describe. tests/infra and tests/unit fail when one is out of date.

.venv/bin/python -m tools.tables        writes them:

values in each chart's README, from its schema (what a value means) and its values.yaml (what it is by default);
options of ``understudy run`` in docs/options.md and, where the bundle has a key for one, in Pulumi.yaml, from understudy/config;
the schema of a stack's file, and keys of the bundle in docs/bundle.md, from Pulumi.yaml
the index of docs/decisions, from the title, date and status of each page
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from infra.schema import json_schema
from understudy.config.bundle import Key, key_of, keys
from understudy.config.tree import options

ROOT = Path(__file__).resolve().parents[1]
CHARTS = ROOT / "charts"
BUNDLE = ROOT / "docs" / "bundle.md"
OPTIONS = ROOT / "docs" / "options.md"
PROGRAM = ROOT / "Pulumi.yaml"
SCHEMA = ROOT / "infra" / "stack.schema.json"
DECISIONS = ROOT / "docs" / "decisions"
INDEX = DECISIONS / "README.md"

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


def with_option_keys() -> str:
    """Pulumi.yaml, each key that is an option of ``understudy run`` as it should be. New ones follow those about replicas."""
    text = PROGRAM.read_text(encoding="utf-8")
    for key in keys().values():
        entry = _entry(key)
        text, found = re.subn(rf"(?m)^  {key.name}:\n(?:    .*\n)+", entry.replace("\\", r"\\"), text)
        if not found:
            before, rule, after = text.partition(_AFTER_REPLICAS)
            text = f"{before}{entry}{rule}{after}"
    return text


#: The line in Pulumi.yaml that ends the keys about replicas.
_AFTER_REPLICAS = "  # ------------------------------------------------------------------------------------------------- how the job is run"


def _entry(key: Key) -> str:
    return "".join(
        f"{line}\n"
        for line in (
            f"  {key.name}:",
            f"    type: {key.type}",
            f"    description: {_scalar(key.description)}",
            f"    default: {_scalar(key.default)}",
        )
    )


def _scalar(value: object) -> str:
    """Without quotes where YAML reads the same text."""
    quoted = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or not value or ": " in value or " #" in value:
        return quoted
    return value if yaml.safe_load(f"x: {value}") == {"x": value} else quoted


def schema() -> str:
    """infra/stack.schema.json as it should be."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def with_options() -> str:
    """docs/options.md with the table as it should be."""
    lines = [
        "| option | variable | key of the bundle | unit | default | meaning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in options():
        declared, key = each.declared, key_of(each)
        unit = declared.unit.words if declared.unit else ""
        default = declared.default_words or f"`{json.dumps(each.default)}`"
        named = f"`{key.name}`" if key else ""
        lines.append(
            f"| `{each.flag}` | `{each.variable}` | {named} | {unit} | {default} | {declared.meaning} |".replace(
                "  ", " "
            )
        )
    return _between(OPTIONS, "options", "\n".join(lines))


def with_keys() -> str:
    """docs/bundle.md with the table as it should be."""
    declared = yaml.safe_load(PROGRAM.read_text(encoding="utf-8"))["config"]
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
    lines = [f"| `{path}` | {default} | {meaning} |" for path, default, meaning in rows]
    return _between(page, what, "\n".join([f"| {first} | default | meaning |", "| --- | --- | --- |", *lines]))


def _between(page: Path, what: str, table: str) -> str:
    begin, end = f"<!-- {what}: written by tools/tables.py -->", f"<!-- end of {what} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def _rows(schema: Mapping[str, Any], values: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    for key, default in values.items():
        known = schema["properties"][key]
        if "properties" in known:
            yield from _rows(known, default, f"{path}{key}.")
        else:
            shown = json.dumps(default, ensure_ascii=False)
            yield f"{path}{key}", f"`{shown}`", known["description"].replace("|", "\\|")


def pages() -> Iterator[tuple[Path, Callable[[], str]]]:
    """What is written, and its text as it should be; in an order in which what is read is there."""
    for chart in charts():
        yield chart.readme, partial(with_table, chart)
    yield PROGRAM, with_option_keys
    yield SCHEMA, schema
    yield BUNDLE, with_keys
    yield OPTIONS, with_options
    yield INDEX, with_decisions


if __name__ == "__main__":
    for page, text in pages():
        page.write_text(text(), encoding="utf-8")
        print(page)
