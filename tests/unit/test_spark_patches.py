"""Every replaced attribute is declared, is the one the replacement was written for, and can be restored."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.spark.zoo.exhibits import CONNECTORS
from tools.spark_patches import PAGE, page
from understudy.driver.spark_patches.registry import Patch, PatchRegistry
from understudy.driver.spark_patches.stock import hashes, installed_line, recorded, stock_text
from understudy.driver.spark_patches.targets import CATALOG, MLLIB, PATCHES, SESSION_CHANGES
from understudy.errors import EnvironmentProblem

DRIVER = Path(__file__).parents[2] / "hooks" / "understudy" / "driver"

OF_PYSPARK = [patch for patch in PATCHES if patch.library == "PySpark"]
OF_DELTA = [patch for patch in PATCHES if patch.library == "Delta Lake"]

REMEDY = (
    "compare the stock method with its replacement in hooks/understudy/driver/spark_patches, then record it: "
    "python -m tools.spark_patches, in this environment"
)


class TestStock:
    @pytest.mark.spark43
    @pytest.mark.parametrize("patch", OF_PYSPARK, ids=lambda patch: patch.target)
    def test_a_stock_method_is_the_one_that_its_replacement_was_written_for(self, patch: Patch) -> None:
        line = installed_line("PySpark")
        assert line in recorded(), f"{line} is not supported yet: {REMEDY}"
        known = recorded()[line].get(patch.target)

        assert hashes([patch]) == {patch.target: known}, f"{patch.target} has changed in {line}: {REMEDY}"

    @pytest.mark.skipif(not (CONNECTORS / "python").is_dir(), reason="tools/setup.sh connectors installs Delta Lake")
    def test_delta_lakes_methods_are_the_ones_that_their_replacements_were_written_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(CONNECTORS / "python")
        line = installed_line("Delta Lake")
        assert line in recorded(), f"{line} is not supported yet: {REMEDY}"
        now, known = hashes(OF_DELTA), recorded()[line]

        assert sorted(target for target in now.keys() | known if now.get(target) != known.get(target)) == [], REMEDY

    def test_every_line_is_recorded_with_all_its_targets(self) -> None:
        assert set(recorded()) == {"PySpark 4.2", "PySpark 4.3", "Delta Lake 4.4"}
        for line, targets in recorded().items():
            patches = OF_DELTA if line.startswith("Delta") else OF_PYSPARK
            assert set(targets) == {patch.target for patch in patches}, line

    def test_the_page_is_up_to_date(self) -> None:
        assert PAGE.read_text(encoding="utf-8") == page(), "call .venv/bin/python -m tools.spark_patches"

    def test_a_docstring_does_not_count_and_a_signature_does(self) -> None:
        def text(signature: str, docstring: str, body: str = "return 1") -> str | None:
            source = f"class A:\n    @early\n    def f({signature}):\n        {docstring!r}\n\n        {body}\n"
            return stock_text(source, ["A", "f"])

        assert text("self", "one") == text("self", "two") == "@early\ndef f(self):\n    return 1"
        assert text("self, x=1", "one") != text("self", "one") != text("self", "one", "return 2")

    def test_the_last_definition_of_a_name_counts(self) -> None:
        source = "class A:\n    @overload\n    def f(self, x): ...\n    def f(self, *x):\n        return x\n"

        assert stock_text(source, ["A", "f"]) == "def f(self, *x):\n    return x"

    def test_an_imported_name_is_described_by_its_import(self) -> None:
        assert stock_text("from subprocess import Popen, PIPE\n", ["Popen"]) == "from subprocess import Popen"

    @pytest.mark.parametrize("path", [["B", "f"], ["A", "g"], ["CONSTANT"]])
    def test_what_is_not_there_has_no_text(self, path: list[str]) -> None:
        assert stock_text("CONSTANT = 1\nclass A:\n    def f(self): ...\n", path) is None


def public_methods(path: str) -> set[str]:
    module, _, name = path.partition(":")
    members = vars(getattr(import_module(module), name))
    return {
        each for each, value in members.items() if each[0] != "_" and callable(value) and not isinstance(value, type)
    }


#: Classes whose methods write, and those of their methods that only prepare a write.
WRITERS = {
    "pyspark.sql.readwriter:DataFrameWriter": "mode format option options partitionBy bucketBy sortBy clusterBy",
    "pyspark.sql.readwriter:DataFrameWriterV2": "using option options tableProperty partitionedBy clusterBy",
    "pyspark.sql.merge:MergeIntoWriter": "whenMatched whenNotMatched whenNotMatchedBySource withSchemaEvolution",
}


@pytest.mark.spark43
class TestNothingIsForgotten:
    """A method that a new PySpark adds would pass the gate unnoticed."""

    @pytest.mark.parametrize("writer", WRITERS)
    def test_every_method_of_a_writer_is_patched_or_known_to_prepare_only(self, writer: str) -> None:
        patched = {patch.path[-1] for patch in PATCHES if patch.target.startswith(f"{writer}.")}

        assert public_methods(writer) - set(WRITERS[writer].split()) == patched

    def test_every_way_to_save_an_rdd_is_patched(self) -> None:
        writes = {name for name in public_methods("pyspark.core.rdd:RDD") if name.startswith(("saveAs", "foreach"))}
        patched = {patch.path[-1] for patch in PATCHES if patch.target.startswith("pyspark.core.rdd:RDD.")}

        assert writes == patched - {"checkpoint"}

    def test_every_change_of_the_catalog_is_patched(self) -> None:
        changes = {
            name
            for name in public_methods(CATALOG)
            if name.startswith(("create", "drop", "truncate", "analyze", "recover")) and not name.endswith("TempView")
        }
        catalog = [patch for patch in PATCHES if patch.target.startswith(f"{CATALOG}.")]
        patched = {patch.path[-1] for patch in catalog if patch.target not in SESSION_CHANGES}

        assert changes == patched - {"tableExists", "cacheTable"}

    @pytest.mark.parametrize("name", MLLIB)
    def test_every_model_that_saves_itself_is_patched(self, name: str) -> None:
        module = import_module(name)
        models = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
        saving = {f"{name}:{model.__qualname__}.save" for model in models if "save" in vars(model)}

        assert saving == {patch.target for patch in PATCHES if patch.module == name}

    @pytest.mark.parametrize("owner", [*WRITERS, "pyspark.core.rdd:RDD", CATALOG])
    def test_no_subclass_writes_in_another_way(self, owner: str) -> None:
        patched = {patch.path[-1] for patch in PATCHES if patch.target.startswith(f"{owner}.")}
        module, _, name = owner.partition(":")

        for subclass in getattr(import_module(module), name).__subclasses__():
            assert not patched & set(vars(subclass)), subclass


class Stock:
    """What is patched here."""

    def plain(self) -> str:
        """Says so."""
        return "plain"

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    @property
    def answer(self) -> int:
        return 41


@pytest.fixture
def library() -> Iterator[ModuleType]:
    module = ModuleType("a_library")
    module.Stock = type("Stock", (), dict(vars(Stock)))  # type: ignore[attr-defined]
    module.call = lambda: "called"  # type: ignore[attr-defined]
    sys.modules["a_library"] = module
    yield module
    del sys.modules["a_library"]


def registry(*targets: str, optional: bool = False) -> PatchRegistry:
    return PatchRegistry(Patch(f"a_library:{target}", "a test", "a library", optional=optional) for target in targets)


def louder(stock: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: f"{stock(*given)}!"


class TestRegistry:
    def test_a_method_is_replaced_under_its_name_and_restored(self, library: ModuleType) -> None:
        patches, stock = registry("Stock.plain"), library.Stock.plain
        patches.replace("a_library:Stock.plain", louder)
        assert library.Stock().plain() == "plain!"
        assert (library.Stock.plain.__name__, library.Stock.plain.__doc__) == ("plain", "Says so.")
        assert patches.installed == ["a_library:Stock.plain"]

        patches.undo()
        assert library.Stock.plain is stock
        assert patches.installed == []

    def test_class_methods_properties_and_functions_of_modules_stay_what_they_are(self, library: ModuleType) -> None:
        patches = registry("Stock.of_class", "Stock.answer", "call")
        patches.replace("a_library:Stock.of_class", louder)
        patches.replace("a_library:Stock.answer", lambda stock: lambda self: stock(self) + 1)
        patches.replace("a_library:call", louder)
        assert (library.Stock.of_class(), library.Stock().answer, library.call()) == ("Stock!", 42, "called!")

        patches.undo()
        assert (library.Stock.of_class(), library.Stock().answer, library.call()) == ("Stock", 41, "called")

    def test_a_class_is_replaced_as_it_is(self, library: ModuleType) -> None:
        patches = registry("Stock")
        patches.replace("a_library:Stock", lambda stock: type("Louder", (stock,), {}))
        assert library.Stock.__name__ == "Louder"

    def test_nothing_is_replaced_twice(self, library: ModuleType) -> None:
        patches = registry("Stock.plain")
        patches.replace("a_library:Stock.plain", louder)
        with pytest.raises(ValueError, match=r"a_library:Stock\.plain is already patched"):
            patches.replace("a_library:Stock.plain", louder)
        assert library.Stock().plain() == "plain!"

    def test_a_class_that_a_reload_made_again_is_another_one(self, library: ModuleType) -> None:
        patches = registry("Stock.plain")
        patches.replace("a_library:Stock.plain", louder)
        library.Stock = type("Stock", (), dict(vars(Stock)))  # type: ignore[attr-defined]
        patches.replace("a_library:Stock.plain", louder)
        assert library.Stock().plain() == "plain!"

    def test_what_is_not_declared_is_not_replaced(self, library: ModuleType) -> None:
        with pytest.raises(ValueError, match=r"a_library:Stock\.plain is not declared"):
            registry().replace("a_library:Stock.plain", louder)

    def test_a_missing_target_is_told_by_its_name(self, library: ModuleType) -> None:
        for target in ("Stock.other", "Other.plain", "Stock.__wrapped__"):
            with pytest.raises(EnvironmentProblem, match="this version of a library has no a_library:"):
                registry(target).replace(f"a_library:{target}", louder)

    def test_a_missing_optional_target_is_left_out(self, library: ModuleType) -> None:
        patches = registry("Stock.other", "Other.plain", optional=True)
        patches.replace("a_library:Stock.other", louder)
        patches.replace("a_library:Other.plain", louder)
        assert patches.installed == []

    def test_an_inherited_method_is_not_the_classes_own(self, library: ModuleType) -> None:
        library.Heir = type("Heir", (library.Stock,), {})  # type: ignore[attr-defined]
        with pytest.raises(EnvironmentProblem):
            registry("Heir.plain").replace("a_library:Heir.plain", louder)


@pytest.mark.spark43
def test_everything_that_is_declared_is_installed_and_undone() -> None:
    """In a process of its own: what is patched once an import happens stays watched for."""
    script = """
        import sys
        from types import SimpleNamespace
        from unittest.mock import MagicMock
        from understudy.driver.ending import Ending
        from understudy.driver.rehearsed_code import RehearsedThreads
        from understudy.driver.spark_patches.gateway import replace_gateway
        from understudy.driver.spark_patches.installation import install
        from understudy.driver.spark_patches.registry import PatchRegistry, _owner_of
        from understudy.driver.spark_patches.targets import PATCHES

        def now(patch):
            return vars(_owner_of(patch))[patch.path[-1]]

        there = [patch for patch in PATCHES if patch.library != "Delta Lake" and "sql.connect" not in patch.target]
        stock = {patch.target: now(patch) for patch in there}
        for name in [name for name in sys.modules if name.startswith(("pyspark.ml", "pyspark.streaming"))]:
            del sys.modules[name]  # the product patches them when a script imports them
        patches = PatchRegistry(PATCHES)
        Ending(print, patches).install()
        spec = MagicMock(submit=[], lock_kind="file")
        replace_gateway(patches, spec, 0, MagicMock(refusing=lambda call: call), print)
        def other(stock):
            return lambda *given: stock(*given)

        gate_client = SimpleNamespace(gated=other, redirected=other, rehearsed=RehearsedThreads())
        install(patches, MagicMock(gate_client=gate_client), spec)
        import pyspark.ml.util, pyspark.streaming.context
        import pyspark.mllib.util, pyspark.mllib.classification, pyspark.mllib.clustering, pyspark.mllib.regression
        assert sorted(patches.installed) == sorted(stock), sorted(set(patches.installed) ^ set(stock))
        lazy = ("pyspark.ml", "pyspark.streaming")
        assert all(now(patch) is not stock[patch.target] for patch in there)
        patches.undo()
        assert all(now(patch) is stock[patch.target] for patch in there if not patch.module.startswith(lazy))
        sys.stdout.write("undone")
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.splitlines()[0][:6]) == (0, "undone"), ended.stderr


def assigned_elsewhere(path: Path) -> list[str]:
    """Assignments to attributes of what is imported from other projects, and calls of ``setattr``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    foreign: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                foreign.update((each.asname or each.name).partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("understudy"):
                foreign.update(each.asname or each.name for each in names)
            case _:
                pass
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=value, attr=name)]) if _root(value) in foreign:
                found.append(f"{_root(value)}.{name}")
            case ast.Call(func=ast.Name(id="setattr")):
                found.append("setattr")
            case _:
                pass
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def test_only_the_registry_replaces_attributes_of_others() -> None:
    found = {str(path.relative_to(DRIVER)): assigned_elsewhere(path) for path in sorted(DRIVER.rglob("*.py"))}

    assert {path: names for path, names in found.items() if names} == {
        "main.py": ["sys.argv"],
        "worker_path/understudy_spare.py": ["sys.argv"],
        "spark_patches/registry.py": ["setattr", "setattr"],
    }
