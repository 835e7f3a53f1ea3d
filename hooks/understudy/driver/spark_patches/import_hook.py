"""Calls back when a script imports a module: a library is patched then, and not imported for that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def when_imported(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call ``then`` with the module of that name before its first importer sees it. It is not imported for that."""
    if (known := sys.modules.get(name)) is not None:
        then(known)
        return
    _watch.awaited[name] = then
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


class _Watch(MetaPathFinder):
    """Finds nothing by itself: asks the finders after it, and loads what they find with their loaders."""

    def __init__(self) -> None:
        self.awaited: dict[str, Callable[[ModuleType], None]] = {}

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        del path, target
        if (then := self.awaited.pop(fullname, None)) is None:
            return None
        try:
            found = find_spec(fullname)  # asks this finder, too, which does not wait for the module just now
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
