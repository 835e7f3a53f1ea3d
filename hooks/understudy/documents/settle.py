"""What to do about ``Unknown``.

A write whose answer got lost may have landed, may never land, or may land a minute from now. Two things settle it, and nothing
else does:

- a revision *past* the one the write was made on, by any writer: the write can no longer win on ``seen``;
- winning another compare-and-set on ``seen``: then the first one has lost.

Neither waiting nor reading the unchanged document again says anything. A write is one's own only if its nonce *and* the whole
record equal what was sent: a client-go holder rewrites the leader record and leaves our entries where they are, so a nonce
alone proves nothing; and a record alone may be a look-alike's.
"""

from __future__ import annotations

from understudy.documents.model import Conflict, Content, Document, DocumentStore, Outcome, Unknown, Written
from understudy.errors import DocumentError, DocumentUnreadable


def is_own(document: Document | None, sent: Content, nonce_key: str) -> bool:
    """Whether ``document`` shows that ``sent`` landed: same nonce, and everything that was sent stands there as it was sent.

    ``nonce_key`` names the entry that holds a nonce made for this one write; the entry may hold more (a whole grant). Keys that
    were not sent are foreign and prove nothing either way.
    """
    if sent.entries.get(nonce_key) is None:
        message = f"the write carries no entry {nonce_key!r}, so it cannot be told from a look-alike"
        raise ValueError(message)
    if document is None or document.buried:  # what was sent may be in a tombstone; it does not stand there any more
        return False
    return (
        document.leader == sent.leader
        and all(document.entries.get(key) == value for key, value in sent.entries.items())
        and all(document.labels.get(key) == value for key, value in sent.labels.items())
    )


async def settle(
    store: DocumentStore,
    name: str,
    seen: Document | None,
    sent: Content,
    outcome: Outcome,
    *,
    nonce_key: str,
    attempts: int = 3,
) -> Outcome:
    """The outcome of the write of ``sent`` on ``seen`` (``None``: a create), made certain if the backend lets it.

    ``Written`` is returned as it is. ``Conflict`` becomes ``Written`` if what stands there is one's own: a client that retries
    by itself reports a conflict with its own first attempt. ``Unknown`` is read back and, while ``seen`` still stands, sent
    again, at most ``attempts`` times; it stays ``Unknown`` if the backend does not answer.

    ``Conflict`` means that one's write does not stand there *now*. It may have landed and been overwritten since.

    Raises ``DocumentUnreadable`` when something unreadable stands there.
    """
    for _ in range(attempts):
        match outcome:
            case Written() | Conflict():
                break
            case Unknown():
                outcome = await _once_more(store, name, seen, sent, outcome)
    match outcome:
        case Conflict(current) if current is not None and is_own(current, sent, nonce_key):
            return Written(current)
        case Written() | Conflict() | Unknown():
            return outcome


async def _once_more(
    store: DocumentStore, name: str, seen: Document | None, sent: Content, unknown: Unknown
) -> Outcome:
    """Past ``seen``: a conflict, perhaps with one's own write. ``seen`` still there: another compare-and-set on it."""
    try:
        current = await store.read(name)
    except DocumentUnreadable:
        raise
    except DocumentError as error:
        return Unknown(f"{unknown.cause}; then, reading back: {error}")
    if seen is None:
        return await store.create(name, sent) if current is None else Conflict(current)
    if current is not None and current.revision == seen.revision:
        return await store.replace(seen, sent)
    return Conflict(current)


async def read_or_shell(store: DocumentStore, name: str) -> Document | None:
    """As ``read``, with the ``shell`` of a document that cannot be read."""
    try:
        return await store.read(name)
    except DocumentUnreadable as error:
        return shell(error, name)


async def write_once(
    store: DocumentStore, name: str, seen: Document | None, content: Content, *, remedy: str, repeat: str
) -> None:
    """For a person's command, which may be repeated: nothing is sent again.

    Raises ``DocumentError`` unless it has landed, with ``remedy`` where it has changed since it was ``seen``, and ``repeat`` where that is unknown.
    """
    outcome = await (store.create(name, content) if seen is None else store.replace(seen, content))
    match outcome:
        case Written():
            return
        case Conflict():
            raise DocumentError("it has changed meanwhile", where=name, remedy=remedy)
        case Unknown(cause):
            raise DocumentError(f"it is unknown whether it was written: {cause}", where=name, remedy=repeat)


def shell(error: DocumentUnreadable, name: str) -> Document:
    """A document without content that stands for the unreadable one, so that its rightful holder can replace it by CAS.

    For replacing only: it is *not* what is stored there. Raises ``error`` again when it names no revision to compare with.
    """
    if not error.revision:
        raise error
    return Document(name, {}, None, {}, error.revision)
