"""Documents as objects of a bucket: one object each, replaced by conditional PUTs.

Compare-and-set is a PUT with ``If-None-Match: *`` for what is missing, and with ``If-Match`` and the ETag of what was seen for
all else; a tombstone is one more PUT, since servers that honour these conditions ignore them on a DELETE. A revision is an
ETag, which is a digest of the bytes on many servers, so every write puts a nonce into them: no two writes are of equal bytes.

Each request has its own time-out and is sent once. An object's bytes are fixed by its ETag, therefore what was read or written
last is kept, and a replacement of it costs one request.

Not guaranteed: anything on a server that ignores the condition of a PUT (``probe`` finds one), and that an object
an operator puts back byte by byte, its old nonce included, is told from what it was then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from obstore import get_async, put_async
from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError

from understudy.documents import record
from understudy.documents.model import Conflict, Content, Document, Outcome, Unknown, Written, check_name
from understudy.documents.nonce import unique
from understudy.documents.record import Record
from understudy.documents.size import SizeCheck
from understudy.errors import DocumentError, DocumentUnreadable, EnvironmentProblem, ServerUnreachable
from understudy.events import Log
from understudy.s3.client import Prefix
from understudy.s3.settings import S3Settings

if TYPE_CHECKING:
    from obstore import GetOptions, PutMode

#: Seconds between two looks of a watcher. A takeover after a release waits half of it on average; each look is a request that is paid for.
LOOK: Final = 0.5

#: The field with what tells this write from all others; ``record`` keeps it as one of those that it does not know.
_NONCE = "nonce"

#: No document's name, and an ETag that no object has.
_PROBE, _PROBE_DATA, _NO_ETAG = (
    ".probe",
    b"conditional writes are tried out here\n",
    '"00000000000000000000000000000000"',
)

_NO_ETAG_REMEDY = "Keep the lock and documents in a store that names one"


@dataclass(frozen=True, slots=True)
class _Stored:
    etag: str
    data: bytes


class S3DocumentStore:
    """A ``DocumentStore`` below ``prefix`` of a bucket. ``request_timeout`` and ``look`` are in seconds.

    ``requests`` counts what was sent, by kind. The server is not asked before the first operation.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        settings: S3Settings,
        request_timeout: float,
        *,
        log: Log | None = None,
        look: float = LOOK,
    ) -> None:
        self._at = Prefix(bucket, prefix, settings, request_timeout, retries=0, patience=request_timeout)
        self.place = self._at.place
        self.requests: dict[str, int] = {}
        self._look = look
        self._size = SizeCheck(log)
        self._known: dict[str, _Stored] = {}

    async def read(self, name: str) -> Document | None:
        found = await self._get(check_name(name))
        return None if found is None else self._load(name, found).document(name, found.etag)

    async def create(self, name: str, content: Content) -> Outcome:
        return await self._write(check_name(name), None, lambda old: old.changed(content))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self._write(check_name(seen.name), seen, lambda old: old.changed(content))

    async def bury(self, seen: Document) -> Outcome:
        return await self._write(check_name(seen.name), seen, Record.buried)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        """The document now and after changes; changes in quick succession are told once. Never raises for a server that is away."""
        check_name(name)
        told: str | None = ""
        while True:
            with suppress(DocumentError, NotModifiedError):  # only a hint: who needs to know why reads, and is told
                found = await self._get(name, told or "")
                etag = None if found is None else found.etag
                if etag != told:
                    document = None if found is None else self._load(name, found).document(name, found.etag)
                    told = etag
                    yield document
            await asyncio.sleep(self._look)

    async def probe(self) -> None:
        """Try whether conditions of a PUT are honoured, on one object that stays. A server's own word for what it supports says nothing.

        Raises:
            EnvironmentProblem: a write has landed that its condition forbids.
            DocumentError: the bucket cannot be used at all.
        """
        with suppress(AlreadyExistsError):
            await self._put(_PROBE, _PROBE_DATA, "create")
        modes: tuple[tuple[str, PutMode], ...] = (("If-None-Match", "create"), ("If-Match", {"e_tag": _NO_ETAG}))
        for header, mode in modes:
            with suppress(AlreadyExistsError, PreconditionError):
                await self._put(_PROBE, _PROBE_DATA, mode)
                raise EnvironmentProblem(
                    f"the object store replaces what it is asked not to ({header})",
                    where=self.place,
                    remedy="Keep the lock and documents in a store that honours conditional writes",
                )

    async def _get(self, name: str, unlike: str = "") -> _Stored | None:
        """Raises ``NotModifiedError`` where the ETag is ``unlike``, and what ``Prefix.ask`` raises."""
        self._count("get" if not unlike else "get-if-changed")
        try:
            found = await self._at.ask(name, self._fetch(name, unlike))
        except FileNotFoundError:
            self._known.pop(name, None)
            return None
        self._known[name] = found
        return found

    async def _fetch(self, name: str, unlike: str) -> _Stored:
        options: GetOptions = {"if_none_match": unlike} if unlike else {}
        answer = await get_async(self._at.store, self._at.path(name), options=options)
        etag = answer.meta["e_tag"]
        if not etag:
            raise ServerUnreachable("the object store names no ETag", where=name, remedy=_NO_ETAG_REMEDY)
        return _Stored(etag, bytes(await answer.bytes_async()))

    async def _put(self, name: str, data: bytes, mode: PutMode) -> str:
        """The new ETag. Raises ``AlreadyExistsError``, ``PreconditionError``, ``FileNotFoundError``, and what ``Prefix.ask`` raises."""
        self._count("put")
        put = put_async(self._at.store, self._at.path(name), data, mode=mode, use_multipart=False)
        answer = await self._at.ask(name, put)
        etag = answer["e_tag"]
        if not etag:
            raise ServerUnreachable("the object store names no ETag", where=name, remedy=_NO_ETAG_REMEDY)
        return etag

    async def _write(self, name: str, seen: Document | None, change: Callable[[Record], Record]) -> Outcome:
        try:
            base = None if seen is None else await self._as_seen(seen)
        except ServerUnreachable as error:
            return Unknown(str(error))
        if isinstance(base, Conflict):
            return base
        new = change(base or Record())
        new = replace(new, foreign={**new.foreign, _NONCE: unique()})
        data = record.dump(name, new)
        self._size.check(name, len(data))
        try:
            etag = await self._put(name, data, "create" if seen is None else {"e_tag": seen.revision})
        except ServerUnreachable as error:
            return Unknown(str(error))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return await self._refused(name, seen, data)
        self._known[name] = _Stored(etag, data)
        return Written(new.document(name, etag))

    async def _as_seen(self, seen: Document) -> Record | Conflict:
        """All of what was seen, of which ``seen`` has no foreign fields; nothing of an unreadable document can be kept."""
        found = self._known.get(seen.name)
        if found is None or found.etag != seen.revision:
            found = await self._get(seen.name)
        if found is None:
            return Conflict(None)
        if found.etag != seen.revision:
            return Conflict(self._load(seen.name, found).document(seen.name, found.etag))
        with suppress(DocumentUnreadable):  # only its rightful holder, who names its revision, comes here
            return self._load(seen.name, found)
        return Record()

    async def _refused(self, name: str, seen: Document | None, sent: bytes) -> Outcome:
        """After a refusal: what stands there instead.

        It is ours, byte by byte, where something on the way has sent it twice. It is what was seen where the server was busy
        with another write (409), which may land or not.
        """
        try:
            found = await self._get(name)
        except ServerUnreachable as error:
            return Unknown(f"refused as a conflict; then, reading: {error}")
        if (None if found is None else found.etag) == (None if seen is None else seen.revision):
            return Unknown(f"{self.place}/{name}: refused, and what was seen still stands there")
        if found is None:
            return Conflict(None)
        document = self._load(name, found).document(name, found.etag)
        return Written(document) if found.data == sent else Conflict(document)

    def _load(self, name: str, found: _Stored) -> Record:
        return record.load(name, found.data, where=f"{self.place}/{name}", revision=found.etag)

    def _count(self, kind: str) -> None:
        self.requests[kind] = self.requests.get(kind, 0) + 1
