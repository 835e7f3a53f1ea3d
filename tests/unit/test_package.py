"""What is installed: a package with its fence or none, under a name of its own, whose errors name what there is."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import typer.core
import typer.main

import understudy
from understudy.cli.main import app
from understudy.submit import FLAGS, WITH_VALUE

HOUSE = Path(__file__).parents[2]
PACKAGE = HOUSE / "hooks" / "understudy"


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", HOUSE / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a build needs of this one, with sources of a fence that was never built."""
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(HOUSE / name, root)
    shutil.copytree(PACKAGE, root / "hooks" / "understudy", ignore=shutil.ignore_patterns("jars", "__pycache__"))
    (root / "hooks" / "jvm").mkdir()
    (root / "hooks" / "jvm" / "pom.xml").write_text("<project/>")
    return root


def build(root: Path, *, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root.parent / "dist")],
        cwd=root,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def with_maven(root: Path, script: str) -> str:
    """A PATH with this one for Maven."""
    places = root.parent / "bin"
    places.mkdir()
    (places / "mvn").write_text(f"#!/bin/bash\n{script}\n")
    (places / "mvn").chmod(0o755)
    return f"{places}{os.pathsep}{os.environ['PATH']}"


def jars_of(root: Path) -> list[str]:
    (wheel,) = (root.parent / "dist").glob("understudy_spark-*.whl")
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".jar")]


JAR = "understudy-fence-9.jar"
MAKES_A_JAR = f"mkdir -p hooks/jvm/target && touch hooks/jvm/target/{JAR}"


class TestAWheel:
    def test_is_not_made_without_a_fence(self, checkout: Path, tmp_path: Path) -> None:
        ended = build(checkout, path=str(tmp_path))
        assert ended.returncode != 0
        said = ended.stderr.strip().splitlines()
        assert len(said) == 1, ended.stderr
        assert "Maven is not installed" in said[0]
        assert "JDK 17 or 21 and Maven" in said[0]
        assert not list(tmp_path.glob("dist/*.whl"))

    def test_says_what_maven_said_where_it_fails(self, checkout: Path, tmp_path: Path) -> None:
        ended = build(checkout, path=with_maven(checkout, "echo '[ERROR] no such artifact'; exit 1"))
        assert ended.returncode != 0
        assert "Maven failed ([ERROR] no such artifact)" in ended.stderr
        assert not list(tmp_path.glob("dist/*.whl"))

    def test_has_the_fence_that_maven_builds(self, checkout: Path) -> None:
        ended = build(checkout, path=with_maven(checkout, MAKES_A_JAR))
        assert ended.returncode == 0, ended.stderr
        assert jars_of(checkout) == [f"understudy/jars/{JAR}"]

    def test_takes_the_jar_of_these_sources_and_builds_another_one_for_others(self, checkout: Path) -> None:
        jars = checkout / "hooks" / "understudy" / "jars"
        jars.mkdir()
        (jars / "understudy-fence-8.jar").touch()
        (jars / ".stamp").write_text(hook()._key(checkout))
        path = with_maven(checkout, MAKES_A_JAR)
        assert build(checkout, path=path).returncode == 0
        assert jars_of(checkout) == ["understudy/jars/understudy-fence-8.jar"]
        (checkout / "hooks" / "jvm" / "pom.xml").write_text("<another/>")
        assert build(checkout, path=path).returncode == 0
        assert jars_of(checkout) == [f"understudy/jars/{JAR}"]

    def test_editable_is_made_before_the_jar_is(self, checkout: Path) -> None:
        hook().FenceHook(str(checkout), {}, None, None, "", "wheel").initialize("editable", {})


def test_the_hook_knows_a_jar_by_the_same_key_as_the_set_up(checkout: Path) -> None:
    script = (HOUSE / "tools" / "setup.sh").read_text(encoding="utf-8")
    functions = "\n".join(re.findall(r"^jar_(?:sources|key)\(\) \{.*\}$", script, re.MULTILINE))
    (checkout / "hooks" / "jvm" / "target").mkdir()
    (checkout / "hooks" / "jvm" / "target" / "left-out").touch()
    (checkout / "hooks" / "jvm" / "src" / "test").mkdir(parents=True)
    (checkout / "hooks" / "jvm" / "src" / "test" / "LeftOutToo.java").touch()
    (checkout / "hooks" / "jvm" / "Za.java").write_text("Z")
    (checkout / "hooks" / "jvm" / "a b.java").write_text("a")
    said = subprocess.run(
        ["bash", "-c", f"{functions}\njar_key"], cwd=checkout, capture_output=True, text=True, check=True
    )
    assert hook()._key(checkout) == said.stdout.strip()


def test_the_version_is_told() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "understudy.cli.main", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"understudy {understudy.__version__}\n"


# What errors tell people to do.


def remedies() -> Iterator[tuple[str, str]]:
    """Where, and the text of each remedy, as far as it stands in the source."""
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "remedy":
                value = constants.get(node.value.id, node.value) if isinstance(node.value, ast.Name) else node.value
                text = "".join(
                    part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""
                    for part in ast.walk(value)
                )
                yield f"{file.relative_to(HOUSE)}:{node.value.lineno}", text


def commands() -> dict[str, typer.core.TyperCommand | typer.core.TyperGroup]:
    """By what is written: a group's commands as ``claims move``."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    found: dict[str, typer.core.TyperCommand | typer.core.TyperGroup] = {}
    for name, each in group.commands.items():
        assert isinstance(each, typer.core.TyperCommand | typer.core.TyperGroup)
        found[name] = each
        for inner, part in each.commands.items() if isinstance(each, typer.core.TyperGroup) else ():
            assert isinstance(part, typer.core.TyperCommand)
            found[f"{name} {inner}"] = part
    return found


def test_remedies_name_commands_options_and_targets_that_there_are() -> None:
    known = commands()
    options = {option for each in known.values() for parameter in each.params for option in parameter.opts}
    options |= WITH_VALUE | FLAGS | {"--help"}
    targets = set(re.findall(r"^([a-z0-9-]+):", (HOUSE / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    extras = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ].keys()
    found = list(remedies())
    assert len(found) > 80
    for where, text in found:
        assert set(re.findall(r"(?<!an )\bunderstudy ([a-z]+)\b", text)) - {"by", "with"} <= known.keys(), where
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= options, where
        assert set(re.findall(r"`make ([a-z0-9-]+)", text)) <= targets, where
        assert set(re.findall(r"\bunderstudy(?:-spark)?\[(\w+)\]", text)) <= extras, where
        assert "understudy[" not in text, f"{where}: the distribution is called understudy-spark"
