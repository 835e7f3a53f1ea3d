"""Modules of ``--py-files``, which a script may import before it has a session, as under spark-submit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

from understudy.submit import local_files


def make_importable(submit: Sequence[str], environ: Mapping[str, str]) -> None:
    """Put archives and directories on the path, and make each module file importable without its neighbours.

    Files that are not on this machine are fetched by Spark, and can be imported once there is a session. Raises ``SettingsError`` for a file
    of settings that cannot be read.
    """
    files = [path.absolute() for path in local_files(submit, environ, "--py-files", "spark.submit.pyFiles")]
    modules = {path.stem: path for path in files if path.suffix == ".py"}
    sys.path[0:0] = [str(path) for path in files if path.suffix != ".py"]
    if modules:
        sys.meta_path.append(_Modules(modules))


class _Modules(MetaPathFinder):
    def __init__(self, modules: dict[str, Path]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        del path, target
        return spec_from_file_location(fullname, self._modules[fullname]) if fullname in self._modules else None
