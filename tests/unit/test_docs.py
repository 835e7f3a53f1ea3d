"""The pages say nothing that is not there: links, commands, options, exit codes, metrics, files, figures."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main

from bench import measured
from tools import tables
from understudy import errors
from understudy.cli.main import app
from understudy.cli.run import default_ha_dir, split
from understudy.config.tree import options

HOUSE = Path(__file__).parents[2]
#: Options in the pages that belong to other programs.
_OTHERS_OPTIONS = set(
    "--auto-compaction-retention --beside --bump-revision --cascade --diagram --directions --dist --drain --exclude-protected --first --for --from --generate-hashes --help --ignore --kills --kinds --minutes --mount --no-header --nodes"
    " --refresh --replicas --require-hashes --rounds --secret --sizes --stops --strict --timed --tmpfs --universal --variants".split()
)
#: Words that the language rules replace (CONTRIBUTING.md).
_AVOIDED = re.compile(
    r"\b(nobody|somebody|someone|whoever|whomever|whatever|anew|mend(?:s|ed|ing)?|at your place|all in all)\b",
    re.IGNORECASE,
)


def _tracked(*patterns: str) -> list[Path]:
    """Files that git knows, or would know; a build directory may hold pages of others."""
    words = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns)
    found = subprocess.run(words, cwd=HOUSE, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(HOUSE / name for name in found if (HOUSE / name).is_file())


PAGES = _tracked("*.md")
CODE = "\n".join(
    path.read_text(encoding="utf-8") for path in _tracked("hooks/understudy/*.py", "hooks/jvm/src/main/*.java")
)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _spans(page: Path) -> list[str]:
    """What is written as code within a sentence."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", _text(page), flags=re.MULTILINE | re.DOTALL))


def _handwritten(page: Path) -> str:
    """Without tables that are written from elsewhere, and without code."""
    text = re.sub(r"<!-- (\w+): written by .*?<!-- end of \1 -->", "", _text(page), flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", "\n".join(line for line in text.splitlines() if not line.startswith("    ")))


def _anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", _text(page), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", _text(page)):
        there = page.parent / target if target else page
        assert there.exists(), f"{target} is not there"
        if anchor:
            assert anchor in _anchors(there), f"{target or page.name} has no heading #{anchor}"


@every_page
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", _text(HOUSE / "Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|^ +)make ([a-z0-9-]+)", _text(page), re.MULTILINE))
    assert named <= targets


def _group() -> typer.core.TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return group


@functools.cache
def _options() -> set[str]:
    commands = [_group(), *_group().commands.values()]
    commands += [each for group in commands[1:] for each in getattr(group, "commands", {}).values()]
    names = {name for command in commands for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return {name for name in names if name.startswith("--")}


@functools.cache
def _is_spark_submits(option: str) -> bool:
    try:
        split([option, "value", "job.py"])
    except errors.SettingsError:
        return False
    return True


@every_page
def test_every_option_exists(page: Path) -> None:
    named = {match for span in _spans(page) for match in re.findall(r"(?:^|\s)(--[a-z][a-z-]+)", span)}
    unknown = {each for each in named - _options() - _OTHERS_OPTIONS if not _is_spark_submits(each)}
    assert unknown == set()


def test_what_the_readme_tells_an_ordinary_user_to_run_can_be_run_by_one() -> None:
    lines = re.findall(r"^    \.venv/bin/understudy ([a-z]+)(.*)$", _text(HOUSE / "README.md"), re.MULTILINE)

    assert {command for command, _ in lines} >= {"run", "status"}
    for command, words in lines:
        given = _group().commands[command].make_context(command, shlex.split(words)).params
        place = given["ha_dir"] or default_ha_dir()
        assert place.is_relative_to(Path.home()), f"understudy {command}{words}: {place} is not for everybody to write"


@every_page
def test_every_command_line_of_understudy_is_accepted(page: Path) -> None:
    for line in re.findall(r"^ {4,}(?:\.venv/bin/)?understudy ([a-z-]+.*)$", _text(page), re.MULTILINE):
        command, *words = shlex.split(line, comments=True)
        found: Any = _group().commands[command]
        while isinstance(found, typer.core.TyperGroup):
            command, *words = words
            found = found.commands[command]
        found.make_context(command, words)


def test_the_readme_is_one_screen() -> None:
    assert len(_text(HOUSE / "README.md").splitlines()) <= 80


def _codes() -> set[int]:
    return {0} | {
        kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")
    }


def test_the_page_on_exit_codes_knows_every_error() -> None:
    page = _text(HOUSE / "docs" / "exit-codes.md")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == _codes()


@every_page
def test_every_exit_code_exists(page: Path) -> None:
    assert {int(code) for code in re.findall(r"\b(?:exit )?code (\d+)\b", _text(page))} <= _codes()


@every_page
def test_every_metric_exists(page: Path) -> None:
    for metric in set(re.findall(r"\bunderstudy_([a-z_]+[a-z])", _text(page))):
        name = metric.removesuffix("_total")
        assert f'"{name}"' in CODE or f"understudy_{name}" in CODE or name == "worker_daemon", metric


@every_page
def test_every_environment_variable_and_event_exists(page: Path) -> None:
    named = set(re.findall(r"\bUNDERSTUDY_[A-Z_]+", _text(page))) | set(re.findall(r"\bEvent `(\w+)`", _text(page)))
    named -= {option.variable for option in options()}
    assert {each for each in named if each not in CODE} == set()


_TESTS = {path.name for path in _tracked("tests/*.py", "e2e/*.py")}
_ROOMS = (
    "bench/",
    "charts/",
    "docs/",
    "e2e/",
    "examples/",
    "hooks/",
    "infra/",
    "requirements/",
    "stacks/",
    "testkit/",
    "tests/",
    "tools/",
)


@every_page
def test_every_file_exists(page: Path) -> None:
    for span in _spans(page):
        if re.fullmatch(r"test_\w+\.py", span):
            assert span in _TESTS, span
        if span.startswith(_ROOMS) and re.fullmatch(r"[\w./-]+", span):
            assert (HOUSE / span).exists(), span


@every_page
def test_words_that_the_rules_of_language_replace_stay_out(page: Path) -> None:
    lines = _handwritten(page).splitlines()
    table_of_a_run = {"zoo.md", "proof.md"}  # written by the run
    kept = [line for line in lines if not (page.name in table_of_a_run and line.startswith("|"))]
    assert [line for line in kept if _AVOIDED.search(line)] == []


class TestDecisions:
    DECISIONS = sorted((HOUSE / "docs" / "decisions").glob("[0-9]*.md"))

    def test_each_has_a_number_which_is_that_of_its_title(self) -> None:
        numbers = [page.name.partition("-")[0] for page in self.DECISIONS]
        assert len(numbers) == len(set(numbers)), "two decisions have one number"
        for page, number in zip(self.DECISIONS, numbers, strict=True):
            assert _text(page).startswith(f"# {int(number)}. "), page.name

    @pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
    def test_each_has_a_date_a_status_and_one_form(self, page: Path) -> None:
        assert re.match(
            r"# \d+\. .+\n\nDate: \d{4}-\d\d-\d\d\nStatus: (accepted|superseded by \[)[^\n]*\n\n## Context\n",
            _text(page),
        )
        assert re.findall(r"^## (.+)$", _text(page), re.MULTILINE) == ["Context", "Decision", "Consequences"]

    def test_the_index_lists_them(self) -> None:
        index = HOUSE / "docs" / "decisions" / "README.md"
        assert _text(index) == tables.with_decisions(), "call .venv/bin/python -m tools.tables"


class TestMeasurements:
    def test_the_page_is_current(self) -> None:
        assert _text(measured.PAGE) == measured.page(measured.tables()), "call .venv/bin/python -m bench.measured"

    def test_every_table_has_its_date_and_machine(self) -> None:
        for table in measured.tables():
            for row in table["rows"]:
                assert {"date", "machine"} <= table.keys() | row.keys(), (table["title"], row["name"])
                assert len(row["cells"]) == len(table["columns"]), (table["title"], row["name"])

    @pytest.mark.parametrize(
        ("figure", "shown"),
        [
            ({"median": 0.871, "min": 0.62, "max": 2.36}, "0.871 s (0.62–2.36)"),
            ({"median": 14.12}, "14.1 s (range not recorded)"),
            ({"median": 0.9, "min": 0.0, "max": 2.0}, "0.90 s (0–2.0)"),
            ({"min": 8, "max": 12}, "8–12 s"),
            ({"value": 1234567.0}, "1,234,567 s"),
            ({"value": 43, "unit": "MB"}, "43 MB"),
            ({"text": "never"}, "never"),
            (None, "not measured"),
        ],
    )
    def test_a_figure_shows_its_unit_and_its_range(self, figure: dict[str, Any] | None, shown: str) -> None:
        assert measured.cell(figure, "s") == shown

    def test_a_form_that_is_not_known_is_refused(self) -> None:
        with pytest.raises(ValueError, match="not a figure"):
            measured.cell({"mean": 1.0}, "s")

    def test_a_report_replaces_the_rows_it_has_and_dates_those_it_has_not(self) -> None:
        table = {
            "date": "2026-01-01",
            "machine": "old",
            "columns": [{"name": "a", "variant": "ours"}, {"name": "b", "variant": "theirs"}],
            "rows": [
                {"name": "x", "kind": "jvm", "cells": [{"median": 1.0}, {"text": "never"}], "note": "of the old run"},
                {"name": "y", "kind": "cut", "cells": [{"median": 2.0}, None]},
            ],
        }
        summary = {"n": 8, "p50_s": 0.9, "min_s": 0.8, "max_s": 1.4}
        report = {"kinds": {"jvm": {"ours": summary}}, "date": "2026-02-02", "machine": "new"}

        found = measured.updated(table, report)

        assert (found["date"], found["machine"], found["trials"]) == ("2026-02-02", "new", "8 per cell")
        first, second = found["rows"]
        assert first == {
            "name": "x",
            "kind": "jvm",
            "cells": [{"median": 0.9, "min": 0.8, "max": 1.4}, {"text": "never"}],
        }
        assert (second["date"], second["machine"], second["cells"]) == ("2026-01-01", "old", [{"median": 2.0}, None])

    def test_a_report_of_the_demo_gives_a_takeover_per_row_and_a_phase_per_column(self) -> None:
        columns = [{"name": "detect", "phase": "detect_s"}, {"name": "sum", "phase": "total_s"}]
        rows = [{"name": "x", "kind": "jvm", "cells": []}, {"name": "y", "kind": "cut", "cells": []}]
        takeover = {"kind": "jvm", "epoch": 2, "detect_s": None, "total_s": 1.5}

        found = measured.updated(
            {"columns": columns, "rows": rows}, {"takeovers": [takeover], "date": "2026-02-02", "machine": "new"}
        )

        assert (found["date"], found["machine"]) == ("2026-02-02", "new")
        assert [row["cells"] for row in found["rows"]] == [[None, {"value": 1.5}], [None, None]]
