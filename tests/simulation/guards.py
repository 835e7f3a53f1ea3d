"""Guards, found by their markers in the code, and what is made of their statements to take them out.

A guard is a statement with a comment ``# guard: <name>``, on the line before it or on its first line. A case of a ``match`` counts as
one. The text of the statement does not matter: code may be rewritten and moved as long as the marker stays with it.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

REPOSITORY = Path(__file__).resolve().parents[2]
#: Where guards may be: production code, and what the simulator puts in the place of Spark and the fence.
TREES = {"understudy": REPOSITORY / "hooks" / "understudy", "tests.simulation": Path(__file__).parent}

_MARKER = re.compile(r"# guard: ([a-z][a-z0-9-]*)")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class NoGuard(Exception):
    """A marker that does not exist, exists twice, or marks nothing that can be changed as asked."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Where a guard is: ``line`` counts from 1."""

    name: str
    module: str
    path: Path
    line: int


# What is made of a guard's statement.


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing."""


@dataclass(frozen=True, slots=True)
class Never:
    """The condition of an ``if`` or a ``case`` that never holds."""


@dataclass(frozen=True, slots=True)
class AfterTheNext:
    """The statement that follows comes first."""


@dataclass(frozen=True, slots=True)
class Instead:
    """Another statement; or another head for the same body, where ``code`` is the head of an ``if`` or a ``case``."""

    code: str


Change = Skipped | Never | AfterTheNext | Instead


def markers() -> list[Marker]:
    """Every marker there is."""
    found = []
    for package, tree in TREES.items():
        for path in sorted(tree.rglob("*.py")):
            module = ".".join((package, *path.relative_to(tree).with_suffix("").parts)).removesuffix(".__init__")
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if path != Path(__file__) and (marked := _MARKER.search(line)):
                    found.append(Marker(marked.group(1), module, path, number))
    return found


@cache
def _by_name() -> dict[str, list[Marker]]:
    named: dict[str, list[Marker]] = {}
    for each in markers():
        named.setdefault(each.name, []).append(each)
    return named


def find(name: str) -> Marker:
    """Raises ``NoGuard`` unless there is exactly one."""
    found = _by_name().get(name, [])
    if len(found) != 1:
        raise NoGuard(
            f"{len(found)} guards are called {name}; there has to be one, with `# guard: {name}` at its statement"
        )
    return found[0]


@contextmanager
def changed(guards: Sequence[tuple[str, Change]]) -> Iterator[None]:
    """Within it the functions that hold these guards are without them, wherever they were imported to."""
    by_function: dict[tuple[str, tuple[str, ...]], tuple[ast.Module, list[tuple[Marker, Change]]]] = {}
    trees: dict[Path, ast.Module] = {}
    for name, change in guards:
        marker = find(name)
        tree = trees.setdefault(marker.path, ast.parse(marker.path.read_text(encoding="utf-8")))
        path, _ = _function_at(tree, marker)
        by_function.setdefault((marker.module, path), (tree, []))[1].append((marker, change))
    with ExitStack() as stack:
        for (module, path), (tree, changes) in by_function.items():
            _, function = _function_at(tree, changes[0][0])
            for marker, change in changes:
                _change(function, marker, change)
            _put(module, path, function, stack)
        yield


def _function_at(tree: ast.Module, marker: Marker) -> tuple[tuple[str, ...], _Function]:
    """The function of the module, or the method, that the marker is in: its name, with those of its classes before it."""

    def within(body: Sequence[ast.stmt], outer: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Function]]:
        for node in body:
            if not node.lineno <= marker.line <= (node.end_lineno or 0):
                continue
            if isinstance(node, ast.ClassDef):
                yield from within(node.body, (*outer, node.name))
            elif isinstance(node, _Function):
                yield (*outer, node.name), node

    for found in within(tree.body, ()):
        return found
    raise NoGuard(f"{marker.path}:{marker.line}: the guard {marker.name} is in no function")


def _line(node: ast.stmt | ast.match_case) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno


def _blocks(function: _Function) -> Iterator[list[Any]]:
    """Every list of statements or of cases in the function."""
    for node in ast.walk(function):
        for value in vars(node).values():
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt | ast.match_case):
                yield value


def _change(function: _Function, marker: Marker, change: Change) -> None:
    marked = [
        (block, index)
        for block in _blocks(function)
        for index, node in enumerate(block)
        if _line(node) in (marker.line, marker.line + 1)
    ]
    # a marker at the end of a statement's line marks that one, even where another follows on the next line
    marked.sort(key=lambda place: _line(place[0][place[1]]))
    if not marked:
        raise NoGuard(f"{marker.path}:{marker.line}: no statement follows the guard {marker.name}")
    block, index = marked[0]
    node = block[index]
    match change:
        case Skipped():
            block[index] = ast.copy_location(ast.Pass(), node)
        case Never() if isinstance(node, ast.If):
            node.test = ast.Constant(value=False)
        case Never() if isinstance(node, ast.match_case):
            node.guard = ast.Constant(value=False)
        case AfterTheNext() if index + 1 < len(block):
            block[index : index + 2] = [block[index + 1], node]
        case Instead(code) if isinstance(node, ast.match_case):
            (parsed,) = ast.parse(f"match _:\n    {code}\n        pass").body
            assert isinstance(parsed, ast.Match)
            node.pattern, node.guard = parsed.cases[0].pattern, parsed.cases[0].guard
        case Instead(code) if isinstance(node, ast.If) and code.endswith(":"):
            (parsed,) = ast.parse(f"{code}\n    pass").body
            assert isinstance(parsed, ast.If)
            node.test = parsed.test
        case Instead(code):
            block[index : index + 1] = ast.parse(code).body
        case _:
            raise NoGuard(f"{marker.path}:{marker.line}: {marker.name} cannot become {change}")


def _put(module_name: str, path: tuple[str, ...], function: _Function, stack: ExitStack) -> None:
    module = importlib.import_module(module_name)
    owner: Any = module
    *parents, name = path
    for parent in parents:
        owner = getattr(owner, parent)
    stock = getattr(owner, name)
    made: dict[str, Any] = {}
    tree = ast.fix_missing_locations(ast.Module([function], []))
    exec(compile(tree, f"<mutant of {module_name}:{'.'.join(path)}>", "exec"), vars(module), made)
    if parents:
        stack.enter_context(mock.patch.object(owner, name, made[name]))
        return
    for each in [each for key, each in sys.modules.items() if key.startswith(("understudy.", "tests.simulation."))]:
        if vars(each).get(name) is stock:  # wherever it was imported to
            stack.enter_context(mock.patch.object(each, name, made[name]))
