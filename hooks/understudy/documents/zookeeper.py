"""Documents as znodes: ``<chroot>/<name>`` holds one, as ``record`` writes it.

Compare-and-set is ZooKeeper's own on the version. A revision is ``czxid/version``, so a znode that was deleted and made again is another one.
Every read is preceded by a ``sync`` on the same connection, so a server that follows shows every write that was answered before. ZooKeeper does not
put a ``sync`` to the vote, and the server that leads does nothing for it: it may not have applied yet what another server has answered (seen once in
12,000 reads), and one that has lost the others, and has not noticed, may show an old document. No decision rests on that, because each ends in a
compare-and-set, which is voted on.

Znodes are persistent. An ephemeral one ends with a session, and a session also ends for a replica that is frozen or cut off: it would be evidence
of nothing.

Not guaranteed: a znode that is deleted, made again and written equally often between our look at it and our write takes that write. No store
of ours deletes one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from kazoo.exceptions import AuthFailedError, BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError

from understudy.documents import record
from understudy.documents.model import Conflict, Content, Document, Outcome, Unknown, Written, check_name, conflict
from understudy.documents.record import Record
from understudy.documents.size import SizeCheck
from understudy.documents.zookeeper_connection import UnansweredError, ZooKeeperConnection
from understudy.errors import (
    AccessDenied,
    DocumentError,
    DocumentTooLarge,
    DocumentUnreadable,
    ServerUnreachable,
)
from understudy.events import Log

#: Seconds between two looks of a watcher that is told of nothing: a watch of ZooKeeper's ends with its connection.
_LOOK = 2.0


class ZooKeeperDocumentStore:
    """A ``DocumentStore``. Several, in one process or many, may share an ensemble and a chroot."""

    def __init__(self, connection: ZooKeeperConnection, *, log: Log | None = None) -> None:
        self._connection = connection
        self._size = SizeCheck(log)

    async def read(self, name: str) -> Document | None:
        found = await self._get(check_name(name))
        return None if found is None else self._load(name, *found).document(name, _revision(found[1]))

    async def create(self, name: str, content: Content) -> Outcome:
        data = self._dump(check_name(name), Record().changed(content))
        path, acl = _path(name), self._connection.acl
        try:
            ((_, stat),) = await self._send(
                len(data), lambda client: [client.create_async(path, data, acl=acl, include_data=True)]
            )
        except UnansweredError as error:
            return Unknown(str(error))
        except NodeExistsError:
            return await conflict(self, name)
        except NoNodeError:
            raise DocumentError(
                "the path is gone", where=str(self._connection.address), remedy="Make it again, and restore a backup"
            ) from None
        except KazooException as error:
            raise self._refusal(error, name) from error
        return Written(self._load(name, data, stat).document(name, _revision(stat)))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self._swap(seen, lambda old: old.changed(content))

    async def bury(self, seen: Document) -> Outcome:
        return await self._swap(seen, Record.buried)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        """The document now and after changes; changes in quick succession are told once. Never raises for servers that are away."""
        path = _path(check_name(name))
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def tell(event: Any) -> None:
            del event
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed.set)

        told: str | None = ""
        while True:
            changed.clear()
            with contextlib.suppress(DocumentError, UnansweredError, KazooException):
                # first: what changes after it is told
                await self._connection.ask(lambda client: [client.exists_async(path, watch=tell)])
                document = await self.read(name)
                revision = None if document is None else document.revision
                if revision != told:
                    told = revision
                    yield document
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await changed.wait()

    async def names(self) -> list[str]:
        """Of all documents there are, and of what else is there. Raises ``AccessDenied`` and ``ServerUnreachable``."""
        try:
            (_, found) = await self._connection.ask(
                lambda client: [client.sync_async("/"), client.get_children_async("/")]
            )
        except UnansweredError as error:
            raise self._unreachable(error) from error
        except KazooException as error:
            raise self._refusal(error, "") from error
        return sorted(found)

    async def _swap(self, seen: Document, change: Callable[[Record], Record]) -> Outcome:
        name = check_name(seen.name)
        try:
            found = await self._get(name)
        except ServerUnreachable as error:
            return Unknown(str(error))
        if found is None:
            return Conflict(None)
        if _revision(found[1]) != seen.revision:
            return Conflict(self._load(name, *found).document(name, _revision(found[1])))
        old = Record()
        # Nothing of an unreadable document can be kept; only its rightful holder, who names its revision, comes here.
        with contextlib.suppress(DocumentUnreadable):
            old = self._load(name, *found)
        new = change(old)
        data, version, path = self._dump(name, new), found[1].version, _path(name)
        try:
            (stat,) = await self._send(len(data), lambda client: [client.set_async(path, data, version=version)])
        except UnansweredError as error:
            return Unknown(str(error))
        except (BadVersionError, NoNodeError):
            return await conflict(self, name)
        except KazooException as error:
            raise self._refusal(error, name) from error
        if stat.czxid != found[1].czxid:
            return Unknown(f"{name}: it was deleted and made again meanwhile")
        return Written(new.document(name, _revision(stat)))

    async def _get(self, name: str) -> tuple[bytes, Any] | None:
        """The bytes and the stat. Raises ``AccessDenied`` and ``ServerUnreachable``."""
        path = _path(name)
        try:
            (_, found) = await self._connection.ask(lambda client: [client.sync_async(path), client.get_async(path)])
        except NoNodeError:
            return None
        except UnansweredError as error:
            raise self._unreachable(error) from error
        except KazooException as error:
            raise self._refusal(error, name) from error
        data, stat = found
        return data or b"", stat

    async def _send(self, size: int, send: Callable[[Any], list[Any]]) -> list[Any]:
        sent = self._connection.sent
        sent["writes"] += 1
        sent["bytes"] += size
        return await self._connection.ask(send)

    def _dump(self, name: str, new: Record) -> bytes:
        """Raises ``DocumentTooLarge``."""
        data, largest = record.dump(name, new), self._connection.address.largest
        self._size.check(name, len(data))
        if len(data) > largest:
            raise DocumentTooLarge(
                f"{len(data)} bytes do not fit into a request (jute.maxbuffer leaves {largest})",
                where=name,
                remedy="Keep pointers in documents and data in the object store",
            )
        return data

    def _load(self, name: str, data: bytes, stat: Any) -> Record:
        where = f"{self._connection.address}/{name}"
        return record.load(name, data, where=where, revision=_revision(stat))

    def _unreachable(self, error: UnansweredError) -> ServerUnreachable:
        return ServerUnreachable(
            str(error), where="ZooKeeper", remedy="Most of its servers have to run, and one has to be reached from here"
        )

    def _refusal(self, error: KazooException, name: str) -> DocumentError:
        where = f"{self._connection.address}/{name}"
        if isinstance(error, NoAuthError | AuthFailedError):
            return AccessDenied(
                "ZooKeeper refuses us" + (": it knows no such user" if isinstance(error, AuthFailedError) else ""),
                where=where,
                remedy="Give --ha-address the credentials (digest, sasl or kerberos) that the path and its documents were made with",
            )
        return DocumentError(
            f"ZooKeeper refuses it: {type(error).__name__}", where=where, remedy="See its servers' logs"
        )


def _path(name: str) -> str:
    return f"/{name}"


def _revision(stat: Any) -> str:
    return f"{stat.czxid}/{stat.version}"
