"""Documents as keys: ``<prefix><name>`` holds one, as ``dump_record`` writes it.

Compare-and-set is a transaction that compares ``mod_revision``, which etcd votes on. etcd counts revisions for all keys together and never
goes back, so a key that was deleted and made again has another one. What stands there after a refusal comes with the refusal, in the
transaction's other branch. Reads are linearizable, which is etcd's default, and no decision rests on etcd's leases: a key that goes with a lease
goes for a leader that is frozen, too, whose driver still writes.

Not guaranteed: anything after etcd was restored from a snapshot without ``--bump-revision``, since revisions are then given out twice.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from understudy.services.plugin import (
    AccessDenied,
    Conflict,
    Content,
    Document,
    DocumentError,
    DocumentTooLarge,
    DocumentUnreadable,
    Log,
    Outcome,
    Record,
    ServerUnreachable,
    SizeCheck,
    Unknown,
    Written,
    check_name,
    dump_record,
    load_record,
)
from understudy_etcd.address import EtcdAddress
from understudy_etcd.client import (
    DENIED,
    EXHAUSTED,
    INVALID,
    UNAUTHENTICATED,
    EtcdClient,
    Json,
    RefusedError,
    UnansweredError,
)

#: Seconds between two looks of a watcher that is told of nothing: its member may be frozen or cut off. And between two watches.
_LOOK, _PAUSE = 2.0, 0.5
#: What etcd says to an unknown user, a wrong password, or no user at all. Its codes for these are those of any wrong argument.
_WHO = ("authentication failed", "user name is empty", "user name not found")


@dataclass(frozen=True, slots=True)
class _Stored:
    """A value, and its ``mod_revision`` in decimal digits, as the gateway writes it."""

    data: bytes
    revision: str


class EtcdDocumentStore:
    """A ``DocumentStore``. Several, in one process or many, may share an etcd and a prefix."""

    def __init__(self, client: EtcdClient, *, log: Log | None = None) -> None:
        self._client = client
        self._size = SizeCheck(log)

    async def read(self, name: str) -> Document | None:
        found = await self._get(check_name(name))
        return None if found is None else self._document(name, found)

    async def create(self, name: str, content: Content) -> Outcome:
        return await self._write(check_name(name), "0", Record().changed(content))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self._swap(seen, lambda old: old.changed(content))

    async def bury(self, seen: Document) -> Outcome:
        return await self._swap(seen, Record.buried)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        """The document now and after changes; changes in quick succession are told once. Never raises for a server that is away."""
        told: str | None = ""
        async with aclosing(self._hints(self._key(check_name(name)))) as hints:
            async for _ in hints:
                with suppress(DocumentError):  # only a hint: who needs to know why reads, and is told
                    document = await self.read(name)
                    revision = None if document is None else document.revision
                    if revision != told:
                        told = revision
                        yield document

    async def _hints(self, key: str) -> AsyncGenerator[None, None]:
        """Yields when it is time to look: when a watch has begun, at each change, after ``_LOOK`` without one, and where there is no watch."""
        while True:
            with suppress(UnansweredError, RefusedError):
                async with self._client.watch(key) as happened:
                    while await happened(_LOOK):
                        yield
            yield
            await asyncio.sleep(_PAUSE)

    async def names(self) -> list[str]:
        """Of all documents there are, in order. Raises what ``read`` raises."""
        prefix = self._client.address.prefix
        answer = await self._ask({**below(prefix), "keys_only": True}, prefix)
        return sorted(b64decode(each["key"]).decode(errors="replace").removeprefix(prefix) for each in _kvs(answer))

    async def _swap(self, seen: Document, change: Callable[[Record], Record]) -> Outcome:
        name = check_name(seen.name)
        try:
            found = await self._get(name)  # for what is not ours, which stays
        except ServerUnreachable as error:
            return Unknown(str(error))
        if found is None or found.revision != seen.revision:
            return Conflict(None if found is None else self._document(name, found))
        old = Record()
        # Nothing of an unreadable document can be kept; only its rightful holder, who names its revision, comes here.
        with suppress(DocumentUnreadable):
            old = self._load(name, found)
        return await self._write(name, seen.revision, change(old))

    async def _write(self, name: str, expected: str, record: Record) -> Outcome:
        """``expected``: the revision that has to stand there; ``0`` for a key that is missing."""
        data, key = dump_record(name, record), self._key(name)
        self._size.check(name, len(data))
        self._client.sent["writes"] += 1
        self._client.sent["bytes"] += len(data)
        transaction = {
            "compare": [{"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": expected}],
            "success": [{"request_put": {"key": key, "value": b64encode(data).decode()}}],
            "failure": [{"request_range": {"key": key}}],
        }
        try:
            answer = await self._client.ask("/v3/kv/txn", transaction)
        except UnansweredError as error:
            return Unknown(str(error))
        except RefusedError as error:
            raise refusal(error, self._client.address, name) from error
        if answer.get("succeeded"):
            return Written(record.document(name, str(answer["header"]["revision"])))
        there = _first(answer["responses"][0]["response_range"])
        return Conflict(None if there is None else self._document(name, there))

    async def _get(self, name: str) -> _Stored | None:
        return _first(await self._ask({"key": self._key(name)}, name))

    async def _ask(self, body: Json, where: str) -> Json:
        """Raises ``AccessDenied``, ``ServerUnreachable``, and ``DocumentError`` for what else etcd refuses."""
        try:
            return await self._client.ask("/v3/kv/range", body)
        except UnansweredError as error:
            raise ServerUnreachable(
                str(error), where="etcd", remedy="Most of its members have to run, and one has to be reached from here"
            ) from error
        except RefusedError as error:
            raise refusal(error, self._client.address, where) from error

    def _document(self, name: str, stored: _Stored) -> Document:
        return self._load(name, stored).document(name, stored.revision)

    def _load(self, name: str, stored: _Stored) -> Record:
        where = f"{self._client.address}/{name}"
        return load_record(name, stored.data, where=where, revision=stored.revision)

    def _key(self, name: str) -> str:
        return _base64(self._client.address.prefix + name)


def refusal(error: RefusedError, address: EtcdAddress, name: str) -> DocumentError:
    """What to raise for ``error``, of a request about the document ``name``."""
    where, said = f"etcd {address}", str(error)
    if error.code in {DENIED, UNAUTHENTICATED} or any(each in said for each in _WHO):
        return AccessDenied(
            f"etcd refuses us ({said})",
            where=where,
            remedy=f"Give --ha-address a user=FILE whose role may read and write keys below {address.prefix}",
        )
    if error.code == INVALID and "request is too large" in said:
        return DocumentTooLarge(
            "etcd takes no request as large", where=name, remedy="Leave its option max-request-bytes at 1.5 MiB"
        )
    remedy = "Compact and defragment it, and disarm the alarm" if error.code == EXHAUSTED else "See its logs"
    return DocumentError(f"etcd refuses it: {said}", where=where, remedy=remedy)


def below(prefix: str) -> Json:
    """The range of all keys that begin with ``prefix``."""
    return {"key": _base64(prefix), "range_end": _base64(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _kvs(answer: Json) -> list[Json]:
    return list(answer.get("kvs", []))


def _first(answer: Json) -> _Stored | None:
    """The gateway leaves out what is empty."""
    found = _kvs(answer)
    return _Stored(b64decode(found[0].get("value", "")), str(found[0]["mod_revision"])) if found else None
