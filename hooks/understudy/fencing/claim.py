"""Claims: the resource itself refuses a stale leader, because a lock cannot.

Before a leader uses a document, a checkpoint root or a sink it writes its token and holder there by compare-and-set. From then
on a claimant with a lower token is refused, however long ago its lock was valid. Claims are never removed.

The JVM claims checkpoint roots and sinks; this module claims documents, and reads the claims in local roots for the minimum epoch: the
highest epoch that was ever granted, kept outside the lock's server, so that neither a deleted lock nor a restored backup
repeats one. ``protocol/claim.py`` describes the JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from understudy.documents import codec
from understudy.documents.model import Conflict, Content, Document, DocumentStore, Unknown, Written
from understudy.documents.nonce import unique
from understudy.documents.numbered import Numbered
from understudy.documents.settle import settle
from understudy.errors import DocumentEmptied, DocumentError, DocumentUnreadable
from understudy.protocol.claim import DIRECTORY, ENTRY, FILE, VERSION, Claim, decode
from understudy.threads import Threads

#: Of a job that was never moved to another kind of lock.
NO_FORMER_LOCKS: Mapping[str, int] = MappingProxyType({})

#: Others may claim the same document at the same moment; each round one of them wins, so this many is no race any more.
_ROUNDS = 64

Reason = Literal["higher-token", "other-holder", "other-cluster", "other-job", "other-lock", "unreadable"]


@dataclass(frozen=True, slots=True)
class Claimed:
    """It stands there now. ``document`` was read after it landed; what was read before does not count."""

    document: Document


@dataclass(frozen=True, slots=True)
class Repeated:
    """It stood there already, by the same holder."""

    document: Document


@dataclass(frozen=True, slots=True)
class Refused:
    """``current`` is the claim in the way; ``None`` when what stands there cannot be read, which is never taken for free."""

    reason: Reason
    current: Claim | None
    detail: str


def why_refused(own: Claim, standing: Claim, former: Mapping[str, int] = NO_FORMER_LOCKS) -> Reason | None:
    """Why ``own`` may not follow ``standing``; ``None`` if it may. Identity first: another cluster's token means nothing.

    ``former``: kinds of lock from which the job was moved, each with the highest epoch it granted (``ha/moved.py``).
    """
    if own.cluster != standing.cluster:
        return "other-cluster"
    if own.job != standing.job:
        return "other-job"
    if not _covers(own.lock, standing.lock) and standing.token.epoch > former.get(standing.lock, -1):
        return "other-lock"
    # guard: lower-claim-is-refused
    if own.token < standing.token:
        return "higher-token"
    if own.token == standing.token and own.holder != standing.holder:
        return "other-holder"
    return None


def _covers(one: str, other: str) -> bool:
    """Whether two kinds of lock exclude each other: ``multi`` holds both a Lease and a ConfigMap."""
    return one == other or {one, other} in ({"multi", "lease"}, {"multi", "configmap"})


def standing_claim(document: Document) -> Claim | None:
    """The claim in a document, also in a buried one. Raises ``DocumentUnreadable``; ``None`` if it was never claimed."""
    text = document.entries.get(ENTRY)
    if text is None:
        return None
    _, body = codec.decode(ENTRY, text, newest=VERSION, where=document.name, revision=document.revision)
    return Claim.from_body(body, where=document.name, revision=document.revision)


async def claim(
    store: DocumentStore,
    name: str,
    own: Claim,
    unique: Callable[[], str] = unique,
    former: Mapping[str, int] = NO_FORMER_LOCKS,
) -> Claimed | Repeated | Refused:
    """Claim the document ``name`` (made if it is missing) for ``own``, by compare-and-set. ``former`` as in ``why_refused``.

    Raises ``DocumentError`` when the backend does not answer, or leaves open whether the claim landed. Claim again then:
    that is a repeat if it had.
    """
    for _ in range(_ROUNDS):
        try:
            seen = await store.read(name)
            standing = None if seen is None else standing_claim(seen)
        except DocumentUnreadable as error:
            return Refused("unreadable", None, str(error))
        if seen is not None and standing is not None:
            reason = why_refused(own, standing, former)
            if reason is not None:
                return Refused(reason, standing, f"{name} is claimed with token {standing.token} by {standing.holder}")
            if own == standing and not seen.buried:
                return Repeated(seen)
        value = codec.encode(ENTRY, VERSION, {**own.to_body(), "nonce": unique()})
        sent = Content({ENTRY: value}, None if seen is None else seen.leader)
        try:
            outcome = await (store.create(name, sent) if seen is None else store.replace(seen, sent))
            outcome = await settle(store, name, seen, sent, outcome, nonce_key=ENTRY)
        except DocumentUnreadable as error:
            return Refused("unreadable", None, str(error))
        match outcome:
            case Written(document):
                return Claimed(document)
            case Conflict():
                continue
            case Unknown(cause):
                raise DocumentError(f"it is unknown whether the claim landed: {cause}", where=name)
    raise DocumentError(
        f"lost {_ROUNDS} races in a row", where=name, remedy="Find what else writes this document all the time"
    )


def local_root_claim(root: Path) -> Claim | None:
    """The claim in a checkpoint or sink root on a local disk; ``None`` if it was never claimed. Blocks.

    Raises ``DocumentUnreadable`` for a claim that cannot be understood, ``DocumentError`` when the disk does not give it.
    """
    directory = root / DIRECTORY
    try:
        found = Numbered(directory).read(FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DocumentError(f"the claim cannot be read: {error}", where=str(directory)) from error
    if found is None:
        return None
    number, data = found
    return decode(data, where=str(directory / f"{FILE}@{number}"))


async def min_epoch(store: DocumentStore, name: str, roots: Iterable[Path] = (), *, within: float = 2.0) -> int:
    """The highest epoch in the claim in HA storage and in the claims of local roots; 0 if nothing was ever claimed.

    ``within``, in seconds, bounds the reading of all roots. Raises ``DocumentUnreadable`` if one of them cannot be understood
    and ``DocumentError`` if one cannot be read: an unknown minimum is not 0.
    """
    document = await store.read(name)
    claims = [None if document is None else standing_claim(document)]
    wanted = tuple(roots)
    if wanted:
        try:
            claims += await Threads().call(lambda: [local_root_claim(root) for root in wanted], within)
        except TimeoutError as error:
            raise DocumentError(f"claims in {len(wanted)} roots were not read within {within} s", where=name) from error
    return max((each.token.epoch for each in claims if each is not None), default=0)


def is_new(name: str, document: Document | None, min_epoch: int) -> bool:
    """Whether ``name`` was never used: nothing in it, and no epoch was granted. Told from one that has content, which is ``False``.

    Raises ``DocumentEmptied`` if nothing is in it although an epoch was granted before: its live holder may write it again by
    compare-and-set, other replicas stop with that reason. Foreign entries and labels count as nothing only while there is
    neither a leader record nor an entry.
    """
    if document is not None and (document.leader is not None or document.entries or document.buried):
        return False
    if min_epoch > 0:
        what = "is missing" if document is None else "is empty"
        raise DocumentEmptied(
            f"{what}, but an epoch of at least {min_epoch} was granted before",
            where=name,
            remedy="Restore it, or let its live holder write it again; no other replica may take it for free",
        )
    return True
