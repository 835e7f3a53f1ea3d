"""How long modules and functions may be. What is longer yet is listed, may not grow, and leaves the list when it is short enough."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).parents[2]
PRODUCT = ("hooks", "infra", "tools", "examples")
AROUND = ("testkit", "tests", "bench", "e2e")
MODULE_LINES = 400
FUNCTION_LINES = 60

_NO_METHOD = re.compile(
    r"^(?:if|for|while|switch|try|else|catch|finally|do|synchronized|return|[}@/*])|\b(?:class|record|interface|enum) |->|= "
)

#: Modules of the product that are longer, and their lines.
LONGER_MODULES: dict[str, int] = {}

#: Modules of tests that are longer.
LONGER_TESTS: dict[str, int] = {
    "tests/contract/test_filesystem.py": 511,
    "tests/simulation/peers.py": 428,
    "tests/spark/test_driver_standby.py": 517,
    "tests/unit/election_builders.py": 467,
    "tests/unit/test_claim.py": 451,
    "tests/unit/test_election_machine.py": 650,
    "tests/unit/test_election_elector.py": 517,
    "tests/unit/test_election_leading.py": 669,
    "tests/unit/test_job_store.py": 422,
}

#: Functions that are longer.
LONGER_FUNCTIONS: dict[str, int] = {}

#: Functions of tests that are longer.
LONGER_TEST_FUNCTIONS: dict[str, int] = {
    "bench/hostile.py:main": 78,
    "tests/spark/rig.py:Rig.__init__": 80,
}


def sources(*trees: str, suffixes: tuple[str, ...] = (".py", ".java")) -> Iterator[tuple[str, str]]:
    """Each file's path and text. Scripts as users write them are left out."""
    for tree in trees:
        for path in sorted((HOUSE / tree).rglob("*")):
            name = path.relative_to(HOUSE)
            made = {"target", "test", "__pycache__"} & set(name.parts)
            if path.suffix in suffixes and not made and not name.is_relative_to("tests/spark/zoo/scripts"):
                yield str(name), path.read_text(encoding="utf-8")


def modules(*trees: str) -> dict[str, int]:
    return {name: len(text.splitlines()) for name, text in sources(*trees)}


def functions(*trees: str) -> dict[str, int]:
    """Lines of each function, from ``def`` to its last line. One that is defined within another counts for both."""
    found: dict[str, int] = {}

    def look(node: ast.AST, where: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{where}.{child.name}" if ":" in where else f"{where}:{child.name}"
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                assert child.end_lineno is not None
                found[inner] = max(found.get(inner, 0), child.end_lineno - child.lineno + 1)
            look(child, inner)

    for name, text in sources(*trees, suffixes=(".py",)):
        look(ast.parse(text), name)
    return found


def methods(tree: str) -> dict[str, int]:
    """Lines of each method in Java, by the indentation that the formatter gives its first line and its closing brace."""
    found: dict[str, int] = {}
    for name, text in sources(tree, suffixes=(".java",)):
        lines = text.splitlines()
        for end, line in enumerate(lines):
            if (closed := re.fullmatch(r"( *)\}", line)) is None:
                continue
            same = re.compile(rf"{closed.group(1)}\S")
            start = next((number for number in range(end - 1, -1, -1) if same.match(lines[number])), end)
            head = " ".join(each.strip() for each in lines[start:end]).partition(" {")[0]
            called = re.search(r"(\w+)\(", head)
            if called and not _NO_METHOD.search(head):
                method = f"{name}:{called.group(1)}"
                found[method] = max(found.get(method, 0), end - start + 1)
    return found


def too_long(lines: dict[str, int], most: int, known: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in lines.items() if count > known.get(name, most)}


def short_enough(lines: dict[str, int], most: int, known: dict[str, int]) -> list[str]:
    """What the list says is too long and is not: to be taken out of it."""
    return [name for name in known if lines.get(name, 0) <= most]


def test_modules_of_the_product_have_400_lines_at_most() -> None:
    lines = modules(*PRODUCT)

    assert len(lines) > 150
    assert too_long(lines, MODULE_LINES, LONGER_MODULES) == {}
    assert short_enough(lines, MODULE_LINES, LONGER_MODULES) == []


def test_modules_of_tests_and_benchmarks_have_400_lines_at_most() -> None:
    lines = modules(*AROUND)

    assert len(lines) > 150
    assert too_long(lines, MODULE_LINES, LONGER_TESTS) == {}
    assert short_enough(lines, MODULE_LINES, LONGER_TESTS) == []


def test_functions_of_the_product_have_60_lines_at_most() -> None:
    lines = functions(*PRODUCT) | methods("hooks/jvm/src/main")

    assert len(lines) > 1500
    assert too_long(lines, FUNCTION_LINES, LONGER_FUNCTIONS) == {}
    assert short_enough(lines, FUNCTION_LINES, LONGER_FUNCTIONS) == []


def test_functions_of_tests_and_benchmarks_have_60_lines_at_most() -> None:
    lines = functions(*AROUND)

    assert len(lines) > 1000
    assert too_long(lines, FUNCTION_LINES, LONGER_TEST_FUNCTIONS) == {}
    assert short_enough(lines, FUNCTION_LINES, LONGER_TEST_FUNCTIONS) == []
