"""What clients of one document do, and what each of them must see: the same for every backend."""

from __future__ import annotations

from collections.abc import Iterable

from testkit.faults import Fault
from tests.contract.backends import Backend
from tests.contract.test_documents import NAME
from understudy.documents.model import Conflict, Content, Document, Unknown, Written

CLIENTS = 3
MOVES = ("read", "create", "replace", "bury", "lose", "lose-answer")


async def play(backend: Backend, moves: Iterable[tuple[int, str]]) -> None:  # noqa: C901 - one story
    """Against a model: a number that grows with every write that counts, and what each client saw last.

    ``moves``: which client does what.
    """
    clients = [backend.client() for _ in range(CLIENTS)]
    seen: list[Document | None] = [None] * CLIENTS
    saw = [0] * CLIENTS
    history = 0
    buried = False
    for step, (who, move) in enumerate(moves):
        content = Content({"step": str(step)})
        before = seen[who]
        store = clients[who]
        if move == "lose":
            store = backend.client(Fault.LOST_REQUEST)
        if move == "lose-answer":
            store = backend.client(Fault.LOST_ANSWER)
        if move == "read":
            seen[who], saw[who] = await store.read(NAME), history
            assert (seen[who] is None) == (history == 0)
            assert seen[who] is None or seen[who].buried == buried  # type: ignore[union-attr]
            continue
        if move == "create" or before is None:
            outcome, fits = await store.create(NAME, content), history == 0
        elif move == "bury":
            outcome, fits = await store.bury(before), saw[who] == history
        else:
            outcome, fits = await store.replace(before, content), saw[who] == history
        match outcome:
            case Written(document):
                assert fits
                assert move not in {"lose", "lose-answer"}
                history += 1
                buried = move == "bury" and before is not None
                seen[who], saw[who] = document, history
            case Conflict(current):
                assert not fits
                assert current == await store.read(NAME)
            case Unknown():
                assert move in {"lose", "lose-answer"}
                if fits and move == "lose-answer":
                    history += 1
                    buried = False
