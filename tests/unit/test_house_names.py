"""The field's words: names that were given up do not come back, and some words of prose become fewer.

What is left of either is counted here, and the count only falls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

HOUSE = Path(__file__).parents[2]

#: Names that were given up, by the tree in which nothing defines them: no module, class, function, parameter, attribute or variable.
GIVEN_UP: Mapping[str, frozenset[str]] = {
    "hooks/understudy/supervisor": frozenset(
        "Replica Drivers Seat Term happenings Led Lost Met Aged Heard Died Place places Roster Picture Freshness Due intruder doomed "
        "leaving begun_again bury hear _overhear tell rest idle _feel_pulse child workspace".split()
    ),
    "hooks/understudy/driver": frozenset(
        "Stage stage Deferred Scene Habit Gatekeeper gatekeeper Standing Outdated outdated suspect Allowance allowance cast players "
        "play".split()
    ),
    "hooks/understudy/election": frozenset(
        "facts core turn Sight Tenure floor blind closes_at kills_at turned_at".split()
    ),
    "hooks/understudy": frozenset("_Alone go_first go_like_me".split()),
    "hooks/jvm/src/main": frozenset(
        "Hush Understage KeptState Leftovers LastBatch StaticReads Reflect CheckpointReads Root Roots".split()
    ),
    "infra": frozenset("declared asked Asked rules excused Room Safety claims".split()),
    "testkit": frozenset("Production strikes Misfortune Courier Crowd Racer deployed deployer deployments".split()),
    "tests": frozenset("Production strikes Misfortune Courier Crowd Racer deployed deployer deployments".split()),
    "e2e": frozenset("Production strikes Misfortune Courier Crowd Racer deployed deployer deployments".split()),
    "bench": frozenset("Production strikes Misfortune Courier Crowd Racer deployed deployer deployments".split()),
}

#: Events of the log that have other names now.
GIVEN_UP_EVENTS = frozenset({"begins-afresh", "begins-again", "rests", "unnoted", "overtaken"})

#: Definitions of such names that are left. Only ever to lose entries.
LEFT: Mapping[str, frozenset[str]] = {
    "hooks/understudy/supervisor": frozenset({"workspace"}),
    "infra": frozenset({"declared", "rules"}),
}

_WORDS = re.compile(r"\b(nobody|somebody|whoever|whatever|anew|mend(?:s|ed|ing)?)\b", re.IGNORECASE)

#: How often these words stand in a tree at most. Only ever to be made smaller.
WORDS: Mapping[str, int] = {
    "hooks": 0,
    "infra": 0,
    "testkit": 0,
    "tests": 17,
    "bench": 0,
    "e2e": 0,
    "docs": 0,
    "charts": 0,
    "tools": 0,
    "examples": 0,
}


def files(tree: str, *suffixes: str) -> Iterator[Path]:
    for path in sorted((HOUSE / tree).rglob("*")):
        if path.suffix in suffixes and not {"target", "__pycache__", "node_modules"} & set(path.parts):
            yield path


def defined(path: Path) -> set[str]:
    """The module's name, and what it binds."""
    found = {path.stem}
    if path.suffix == ".java":
        return found | set(re.findall(r"\b(?:class|interface|record|enum) (\w+)", path.read_text(encoding="utf-8")))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return found


def still_defined(tree: str) -> set[str]:
    return {name for path in files(tree, ".py", ".java") for name in defined(path)} & GIVEN_UP[tree]


def logged_events() -> set[str]:
    """Texts of the product that may be events: whole constants."""
    return {
        str(node.value)
        for path in files("hooks/understudy", ".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def words(tree: str) -> int:
    suffixes = (".py", ".java", ".md", ".sh", ".yaml", ".toml", ".json")
    return sum(len(_WORDS.findall(path.read_text(encoding="utf-8"))) for path in files(tree, *suffixes))


def test_names_that_were_given_up_do_not_come_back() -> None:
    found = {tree: names for tree in GIVEN_UP if (names := still_defined(tree))}

    assert {tree: sorted(more) for tree, names in found.items() if (more := names - LEFT.get(tree, frozenset()))} == {}
    gone = {tree: sorted(less) for tree, names in LEFT.items() if (less := names - found.get(tree, frozenset()))}
    assert gone == {}, "nothing defines these any more: take them out of the list"


def test_events_that_were_given_up_do_not_come_back() -> None:
    assert logged_events() & GIVEN_UP_EVENTS == set()


def test_words_that_name_no_subject_do_not_become_more() -> None:
    counted = {tree: words(tree) for tree in WORDS}

    assert {tree: count for tree, count in counted.items() if count > WORDS[tree]} == {}
