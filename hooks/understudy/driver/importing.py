"""Modules of ``--py-files``, which a script may import before it has a session, as under spark-submit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

from understudy.submit import option


def python_files(submit: Sequence[str]) -> list[Path]:
    """Local files of ``--py-files``. Others are fetched by Spark, and can be imported once there is a session."""
    given = (
        part.strip().removeprefix("file://") for part in option(submit, "--py-files", "spark.submit.pyFiles").split(",")
    )
    return [Path(part).absolute() for part in given if part and "://" not in part]


def make_importable(files: Sequence[Path]) -> None:
    """Archives and directories go onto the path; a module is found by its own name, and nothing that lies beside it."""
    modules = {path.stem: path for path in files if path.suffix == ".py"}
    sys.path[1:1] = [str(path) for path in files if path.suffix != ".py"]
    if modules:
        sys.meta_path.append(_Modules(modules))


class _Modules(MetaPathFinder):
    def __init__(self, modules: dict[str, Path]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        del path, target
        return spec_from_file_location(fullname, self._modules[fullname]) if fullname in self._modules else None
