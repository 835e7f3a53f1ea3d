"""What a script imports: modules of ``--py-files``, also before it has a session, as under spark-submit; and libraries to be patched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.submit import local_files


def make_importable(submit: Sequence[str]) -> None:
    """Archives and directories go onto the path; a module is found by its own name, and nothing that lies beside it.

    Files that are not on this machine are fetched by Spark, and can be imported once there is a session.
    """
    files = [path.absolute() for path in local_files(submit, "--py-files", "spark.submit.pyFiles")]
    modules = {path.stem: path for path in files if path.suffix == ".py"}
    sys.path[0:0] = [str(path) for path in files if path.suffix != ".py"]
    if modules:
        sys.meta_path.append(_Modules(modules))


def when_imported(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call ``then`` with the module of that name before its first importer sees it. It is not imported for that."""
    if (known := sys.modules.get(name)) is not None:
        then(known)
        return
    _watch.awaited[name] = then
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


class _Modules(MetaPathFinder):
    def __init__(self, modules: dict[str, Path]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        del path, target
        return spec_from_file_location(fullname, self._modules[fullname]) if fullname in self._modules else None


class _Watch(MetaPathFinder):
    """Finds nothing by itself: asks the finders after it, and loads what they find with theirs."""

    def __init__(self) -> None:
        self.awaited: dict[str, Callable[[ModuleType], None]] = {}

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        del path, target
        if (then := self.awaited.pop(fullname, None)) is None:
            return None
        try:
            found = find_spec(fullname)  # asks us, too, who do not wait for it just now
        finally:
            self.awaited[fullname] = then
        if found is not None and found.loader is not None:
            found.loader = _Followed(found.loader, then)
        return found


#: One for all: every import of the script's asks it first.
_watch = _Watch()


class _Followed(Loader):
    def __init__(self, loader: Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then(module)

    def __getattr__(self, name: str) -> Any:
        """What else a loader can do: sources for tracebacks, resources."""
        return getattr(self._loader, name)
