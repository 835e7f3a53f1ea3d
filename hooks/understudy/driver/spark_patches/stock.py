"""The stock text of what is replaced, so that a release that changed it is noticed.

Read from the library's files: nothing is imported, and a patched process gives the same answer. Docstrings do not count.
"""

from __future__ import annotations

import ast
import hashlib
import json
import textwrap
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from understudy.driver.spark_patches.registry import Patch

#: The hashes of every supported line, written by ``python -m tools.spark_patches``: {"PySpark 4.2": {target: sha256}}.
RECORDED = Path(__file__).with_name("stock_hashes.json")

#: The distributions that carry the libraries.
_DISTRIBUTIONS = {"PySpark": "pyspark", "Delta Lake": "delta_spark"}

_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def installed_line(library: str) -> str | None:
    """The library with the first two parts of its version, such as "PySpark 4.2"; ``None`` where it is not installed."""
    try:
        return f"{library} {'.'.join(version(_DISTRIBUTIONS[library]).split('.')[:2])}"
    except PackageNotFoundError:
        return None


def recorded() -> dict[str, dict[str, str]]:
    """By line, then by target, the hash of the stock text that the replacement was written for."""
    found: dict[str, dict[str, str]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def hashes(patches: Iterable[Patch]) -> dict[str, str]:
    """The hash of each patch's stock text in what is installed. A target that is missing there is left out."""
    texts = {patch.target: stock_text(_source_of(patch.module), patch.path) for patch in patches}
    return {target: hashlib.sha256(text.encode()).hexdigest() for target, text in texts.items() if text is not None}


def stock_text(source: str, path: list[str]) -> str | None:
    """The definition at ``path`` (classes, then the attribute) with decorators and signature, without its docstring.

    The last definition of a name counts, as at run time; a name that is imported is described by that import.
    """
    node: ast.AST = ast.parse(source)
    for name in path:
        found = [each for each in getattr(node, "body", []) if _binds(each, name)]
        if not found:
            return None
        node = found[-1]
    match node:
        case ast.ImportFrom(module=module):
            return f"from {module} import {path[-1]}"
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return _without_docstring(source.splitlines(), node)
        case _:
            return None


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name == name
        case ast.ImportFrom(names=names):
            return any((each.asname or each.name) == name for each in names)
        case _:
            return False


def _without_docstring(lines: list[str], node: _Definition) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    dropped: set[int] = set()
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str())) as text:
            dropped = set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
        case _:
            pass
    kept = [lines[number - 1] for number in range(first, (node.end_lineno or first) + 1) if number not in dropped]
    return textwrap.dedent("\n".join(line.rstrip() for line in kept if line.strip()))


def _source_of(module: str) -> str:
    top, *rest = module.split(".")
    found = find_spec(top)  # of a package on the path, which is not imported for that
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent.joinpath(*rest).with_suffix(".py").read_text(encoding="utf-8")
