"""A library that is patched when a script imports it: before its importer sees it, and not imported for that."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from understudy.driver.spark_patches.import_hook import when_imported


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a module, on the path, and nothing left of either afterwards."""
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "__init__.py").write_text("")
    (tmp_path / "watched" / "tables.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("watched", "watched.tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "watched.tables"


def patched(module: ModuleType) -> None:
    module.VALUE += 1  # type: ignore[attr-defined]


def test_it_is_patched_before_its_importer_sees_it_and_not_imported_for_that(library: str) -> None:
    when_imported(library, patched)
    when_imported("watched.nothing", patched)
    assert library not in sys.modules
    assert importlib.import_module(library).VALUE == 2
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched.nothing")


def test_one_that_is_imported_already_is_patched_at_once(library: str) -> None:
    module = importlib.import_module(library)
    when_imported(library, patched)
    assert module.VALUE == 2
