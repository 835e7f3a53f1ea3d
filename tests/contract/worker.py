"""A process of the contract suite: it races, or writes once and waits at a named step to be stopped or killed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import NamedTuple

from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Conflict, Content, DocumentStore, Unknown, Written


class Win(NamedTuple):
    revision: str
    value: int


async def race(store: DocumentStore, name: str, who: str, rounds: int) -> list[Win]:
    """Add 1 to the counter in ``name`` by compare-and-set, ``rounds`` times, and leave one's own entry beside it."""
    wins: list[Win] = []
    while len(wins) < rounds:
        seen = await store.read(name)
        value = 1 if seen is None else int(seen.entries["count"]) + 1
        content = Content({"count": str(value), who: str(len(wins) + 1)})
        match await (store.create(name, content) if seen is None else store.replace(seen, content)):
            case Written(document):
                wins.append(Win(document.revision, value))
            case Conflict():
                pass
            case Unknown(cause):
                raise AssertionError(cause)
    return wins


async def write(directory: Path, name: str, step: str, keep: float) -> str:
    """Replace what is there. At the first occurrence of ``step`` say so and wait for a line.

    The signal comes from outside: a process that stops itself may run on for a moment, and so past the step.
    """
    armed = True

    def at_step(reached: str) -> None:
        nonlocal armed
        if armed and reached == step:
            armed = False
            say(f"at {step}")
            sys.stdin.readline()

    store = FilesystemDocumentStore(directory, 60.0, keep=keep, at_step=at_step)
    seen = await store.read(name)
    assert seen is not None
    return type(await store.replace(seen, Content({"by": "worker"}))).__name__


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    what, directory, name, *rest = sys.argv[1:]
    if what == "race":
        who, rounds = rest
        say(json.dumps(asyncio.run(race(FilesystemDocumentStore(Path(directory), 60.0), name, who, int(rounds)))))
    else:
        step, keep = rest
        say(asyncio.run(write(Path(directory), name, step, float(keep))))


if __name__ == "__main__":
    main()
