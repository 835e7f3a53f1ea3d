"""The one place where attributes of other projects are replaced."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from understudy.errors import EnvironmentProblem


@dataclass(frozen=True, slots=True)
class Patch:
    """A declared replacement.

    ``target`` is "module:Class.attribute", ``why`` one sentence for a reader of docs/spark-patches.md. ``optional``: releases
    of the library exist that do not have the attribute. ``compiled``: it is written in C, so no text of it can be recorded.
    """

    target: str
    why: str
    library: str = "PySpark"
    optional: bool = False
    compiled: bool = False

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    @property
    def path(self) -> list[str]:
        """Names of the classes, then of the attribute."""
        return self.target.partition(":")[2].split(".")


@dataclass(frozen=True, slots=True)
class _Installed:
    patch: Patch
    owner: type | ModuleType
    stock: Any

    @property
    def name(self) -> str:
        return self.patch.path[-1]


class PatchRegistry:
    """Installs declared patches, each one once, and restores what they replaced. Safe to call from several threads."""

    def __init__(self, declared: Iterable[Patch]) -> None:
        self._declared = {patch.target: patch for patch in declared}
        self._installed: list[_Installed] = []
        self._lock = threading.Lock()

    @property
    def installed(self) -> list[str]:
        """Targets in the order of their installation."""
        return [each.patch.target for each in self._installed]

    def targets_in(self, module: str, *, owner: str = "") -> list[str]:
        """The declared targets of a module, or of one of its classes."""
        return [
            target
            for target, patch in self._declared.items()
            if patch.module == module and owner in ("", ".".join(patch.path[:-1]))
        ]

    def replace(self, target: str, make: Callable[[Any], Any]) -> None:
        """Put ``make(stock)`` in the place of the stock attribute, under its name and with its documentation.

        ``make`` gets the plain function of a class method or a property; the replacement becomes one again. Nothing happens
        where an optional target is missing.

        Raises ``EnvironmentProblem`` where a target that is not optional is missing, ``ValueError`` for a target that is not
        declared or is already replaced. A class that was made again by a reload counts as another one.
        """
        if (patch := self._declared.get(target)) is None:
            raise ValueError(f"{target} is not declared in spark_patches/targets.py")
        # Outside of the lock: it may import, and an import in another thread may wait for the lock.
        if (owner := _owner_of(patch)) is None:
            return
        name = patch.path[-1]
        with self._lock:
            if any(each.owner is owner and each.name == name for each in self._installed):
                raise ValueError(f"{target} is already patched")
            stock = vars(owner)[name]
            setattr(owner, name, _in_place_of(stock, make))
            self._installed.append(_Installed(patch, owner, stock))

    def undo(self) -> None:
        """Restore every stock attribute, the last replaced one first."""
        with self._lock:
            while self._installed:
                each = self._installed.pop()
                setattr(each.owner, each.name, each.stock)


def _owner_of(patch: Patch) -> type | ModuleType | None:
    """The module or class that has the attribute itself; ``None`` where an optional one is missing."""
    *classes, name = patch.path
    # A module whose import called us is there already, though its import has not ended.
    owner: Any = sys.modules.get(patch.module) or importlib.import_module(patch.module)
    for each in classes:
        owner = getattr(owner, each, None)
    if owner is not None and name in vars(owner):
        found: type | ModuleType = owner
        return found
    if patch.optional:
        return None
    raise EnvironmentProblem(
        f"this version of {patch.library} has no {patch.target}, which understudy has to replace",
        where="spark_patches",
        remedy=f"Install a version of {patch.library} that docs/spark-patches.md lists",
    )


def _in_place_of(stock: Any, make: Callable[[Any], Any]) -> Any:
    match stock:
        case classmethod():
            return classmethod(_named(stock.__func__, make))
        case property():
            return property(_named(stock.fget, make))
        case _:
            return _named(stock, make)


def _named(stock: Any, make: Callable[[Any], Any]) -> Any:
    made = make(stock)
    return made if isinstance(made, type) else functools.wraps(stock)(made)
