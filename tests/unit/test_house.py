"""The house rules that no linter knows."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import understudy
from understudy.services import plugin

HOUSE = Path(__file__).parents[2]
LOCKS = sorted((HOUSE / "requirements").glob("*.txt"))
PIN = re.compile(r"^([a-z0-9.-]+)==([^ ;]+)", re.MULTILINE)


#: What says who leads, what was committed, and when.
OBSERVERS = (
    *("testkit/observer.py", "testkit/procs.py", "testkit/feeds.py"),
    *(f"e2e/harness/{name}.py" for name in ("bucket_sync", "objects", "deployment_under_test", "faults")),
)


def names_in(file: Path) -> set[str]:
    """What a file imports, wherever in it: modules, and names that may be modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found.update((module, *(f"{module}.{alias.name}" for alias in names)))
            case _:
                pass
    return found


def imported_by(file: Path) -> set[str]:
    """The top-level packages a file imports, wherever in it."""
    return {name.partition(".")[0] for name in names_in(file)}


def reached_from(file: Path) -> set[Path]:
    """The file, and what it imports from beside the package, directly or not."""
    found, news = set[Path](), {file}
    while news:
        found |= news
        names = {name.replace(".", "/") for each in news for name in names_in(each)}
        paths = {HOUSE / path for name in names for path in (f"{name}.py", f"{name}/__init__.py")}
        news = {path for path in paths if path.is_file()} - found
    return found


#: A prefix is what it asks for.
PREFIXES = {"infra/render.py"}


@pytest.mark.parametrize("package", ["hooks/understudy", "infra", "hooks/image"])
def test_a_form_is_compared_with_the_whole_text(package: str) -> None:
    """``match`` with ``$`` lets a trailing newline pass."""
    found = [
        f"{file.relative_to(HOUSE)}:{node.lineno}"
        for file in sorted((HOUSE / package).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "match"
    ]
    assert [place for place in found if place.partition(":")[0] not in PREFIXES] == []


def settings() -> dict[str, dict[str, object]]:
    return tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
class TestLocks:
    def test_a_lock_names_no_download_host(self, lock: Path) -> None:
        text = lock.read_text(encoding="utf-8")

        assert "://" not in text
        assert "--index" not in text
        assert "--find-links" not in text

    def test_every_pin_in_a_lock_has_a_hash(self, lock: Path) -> None:
        text = lock.read_text(encoding="utf-8")

        pins = [entry for entry in re.split(r"\n(?=[a-z0-9])", text) if "==" in entry]

        assert pins
        assert [entry.splitlines()[0] for entry in pins if "--hash=sha256:" not in entry] == []


def test_the_two_environments_differ_in_spark_only() -> None:
    older, newer = (
        set(PIN.findall((HOUSE / "requirements" / f"spark-{line}.txt").read_text(encoding="utf-8")))
        for line in ("4.2", "4.3")
    )

    assert {name for name, _ in older ^ newer} <= {"pyspark", "py4j"}
    assert any(name == "pyspark" and version.startswith("4.2.") for name, version in older)
    assert any(name == "pyspark" and version.startswith("4.3.") for name, version in newer)


def test_the_image_holds_the_versions_that_the_tests_ran_with() -> None:
    tested, shipped = (
        dict(PIN.findall((HOUSE / "requirements" / name).read_text(encoding="utf-8")))
        for name in ("spark-4.2.txt", "image.txt")
    )

    assert {"pyspark", "inotify-simple", "typer", "kubernetes"} <= set(shipped)
    assert {name: version for name, version in shipped.items() if tested.get(name, version) != version} == {}
    assert set(shipped).isdisjoint({"pytest", "ruff", "mypy", "uv"})


def test_the_package_and_its_fence_carry_the_same_version() -> None:
    pom = ET.parse(HOUSE / "hooks" / "jvm" / "pom.xml")

    fence = pom.getroot().findtext("{http://maven.apache.org/POM/4.0.0}version")

    assert fence == understudy.__version__


def test_the_kafka_connector_is_of_the_spark_that_the_fence_is_compiled_against() -> None:
    versions = {
        ET.parse(HOUSE / room / "pom.xml").getroot().findtext("*/{*}spark.version")
        for room in ("hooks/jvm", "e2e/kafka")
    }

    assert len(versions) == 1
    assert None not in versions


@pytest.mark.parametrize("script", sorted((HOUSE / "examples").glob("*.py")), ids=lambda script: script.name)
def test_an_example_is_a_script_as_users_write_it(script: Path) -> None:
    assert "understudy" not in imported_by(script)


def test_the_example_of_services_imports_of_ours_only_what_is_promised() -> None:
    """So the page and ``plugin.py`` are enough to write such a package."""
    files = sorted((HOUSE / "examples" / "understudy-etcd" / "understudy_etcd").glob("*.py"))
    named = {name for file in files for name in names_in(file) if re.match(r"understudy(\.|$)", name)}
    promised = {f"{plugin.__name__}.{name}" for name in plugin.__all__}

    assert len(files) > 4
    assert named <= {plugin.__name__} | promised


def test_what_is_promised_to_packages_with_services_is_on_the_page() -> None:
    page = (
        (HOUSE / "docs" / "high-availability.md").read_text(encoding="utf-8").partition("## Services of one's own")[2]
    )
    table = page.partition("| names | what for |")[2].partition("###")[0]

    named = [
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1] if "|" in line else "")
    ]

    assert sorted(named) == sorted(plugin.__all__)


def test_the_observer_of_the_demo_imports_nothing_of_ours() -> None:
    assert imported_by(HOUSE / "testkit" / "observer.py").isdisjoint({"understudy", "testkit", "examples"})


@pytest.mark.parametrize("observer", OBSERVERS)
def test_what_times_takeovers_in_a_cluster_reaches_nothing_of_ours(observer: str) -> None:
    for each in reached_from(HOUSE / observer):
        assert imported_by(each).isdisjoint({"understudy", "infra", "examples"}), each


def test_a_deployment_of_the_flights_reaches_what_is_ours_only_where_it_is_deployed() -> None:
    made = HOUSE / "e2e" / "harness" / "deployment_specs.py"

    names = {name.replace(".", "/") for name in names_in(HOUSE / "e2e" / "harness" / "flights_deployment.py")}
    asked = {path for name in names if (path := HOUSE / f"{name}.py").is_file()}

    assert made in asked
    for each in {reached for path in asked - {made} for reached in reached_from(path)}:
        assert imported_by(each).isdisjoint({"understudy", "infra"}), each


def test_the_makefile_needs_no_newer_make_than_3_81() -> None:
    text = (HOUSE / "Makefile").read_text(encoding="utf-8")

    for newer in (".ONESHELL", ".RECIPEPREFIX", "!=", "::=", "$(file ", "$(guile "):
        assert newer not in text


def test_ci_and_the_tools_can_be_run() -> None:
    image = [HOUSE / "hooks" / "image" / name for name in ("build", "packages", "slim", "understudy-entry")]
    for script in [HOUSE / ".ci" / "run", *(HOUSE / "tools").glob("*.sh"), *image]:
        assert os.access(script, os.X_OK), script


def test_no_cancellation_is_lost_in_a_wait_for_something() -> None:
    """Before Python 3.12 ``asyncio.wait_for`` takes a cancellation for a result that comes in the same turn of the loop: ``asyncio.timeout`` does not."""
    users = [path.name for path in (HOUSE / "hooks").rglob("*.py") if "asyncio.wait_for(" in path.read_text()]
    assert users == []


def test_a_class_in_the_jvm_is_asked_for_by_its_whole_name() -> None:
    """One package after the other, each is looked for in every jar: a tenth of a takeover of twenty queries."""
    step_by_step = re.compile(r"jvm\.(org|dev|java|scala)\b")
    files = (HOUSE / "hooks" / "understudy").rglob("*.py")
    named = {
        str(file): step_by_step.findall(file.read_text(encoding="utf-8")) for file in files if file.name != "java.py"
    }
    assert {file for file, found in named.items() if found} == set()
