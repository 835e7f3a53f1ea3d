"""The files of a savepoint: how they are forked, and removed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from tests.doubles.blobs import MemoryBlobStore
from tests.unit.savepoint_builders import written
from understudy.blobs.model import BlobStore
from understudy.errors import DocumentUnreadable, RequestRefused
from understudy.ha import saved_files


class _Below(MemoryBlobStore):
    """A directory of another one, with names that are none of a blob, too."""

    def __init__(self, above: MemoryBlobStore, directory: str) -> None:
        super().__init__(place=f"{above.place}/{directory}")
        self._above, self._directory = above, directory

    async def read(self, name: str) -> bytes | None:
        return await self._above.read(f"{self._directory}/{name}")

    async def create(self, name: str, data: bytes) -> bytes:
        return await self._above.create(f"{self._directory}/{name}", data)

    async def delete(self, name: str) -> None:
        await self._above.delete(f"{self._directory}/{name}")

    async def names(self, prefix: str) -> list[str]:
        found = await self._above.names(f"{self._directory}/{prefix}")
        return [each.removeprefix(f"{self._directory}/") for each in found]


def below(target: MemoryBlobStore) -> Callable[[str], BlobStore]:
    return lambda directory: _Below(target, directory)


def test_a_fork_has_every_file_and_another_id() -> None:
    stored, manifest = written()
    target = MemoryBlobStore()
    asyncio.run(saved_files.fork(MemoryBlobStore(stored), manifest, target, below(target)))
    assert target.stored.keys() == {name for name in stored if name.startswith("flights/")}
    assert json.loads(target.stored["flights/metadata"])["id"] != "a"
    assert target.stored["flights/state/0/0/13.delta"] == b"rows"


class _Gated(MemoryBlobStore):
    """Reads wait until they may go on."""

    def __init__(self, stored: dict[str, bytes]) -> None:
        super().__init__(stored)
        self.may = asyncio.Event()
        self.begun = asyncio.Event()

    async def read(self, name: str) -> bytes | None:
        self.begun.set()
        await self.may.wait()
        return await super().read(name)


def test_of_two_forks_to_one_place_the_second_is_refused_and_takes_nothing_from_the_first() -> None:
    async def script() -> None:
        stored, manifest = written()
        source, target = _Gated(stored), MemoryBlobStore()
        first = asyncio.create_task(saved_files.fork(source, manifest, target, below(target)))
        await source.begun.wait()
        with pytest.raises(RequestRefused, match="memory:/_fork: another fork is being made there"):
            await saved_files.fork(MemoryBlobStore(stored), manifest, target, below(target))
        source.may.set()
        await first
        assert target.stored.keys() == {name for name in stored if name.startswith("flights/")}
        with pytest.raises(RequestRefused, match="memory:/flights: it is not empty"):
            await saved_files.fork(MemoryBlobStore(stored), manifest, target, below(target))
        assert target.stored.keys() == {name for name in stored if name.startswith("flights/")}

    asyncio.run(script())


def test_what_is_written_to_the_new_place_meanwhile_is_neither_used_nor_removed() -> None:
    async def script() -> None:
        stored, manifest = written()
        source, target = _Gated(stored), MemoryBlobStore()
        forking = asyncio.create_task(saved_files.fork(source, manifest, target, below(target)))
        await source.begun.wait()
        target.stored["flights/metadata"] = b"of a query that has started"
        source.may.set()
        with pytest.raises(RequestRefused, match="flights/metadata: something else was written there meanwhile"):
            await forking
        assert target.stored == {"flights/metadata": b"of a query that has started"}

    asyncio.run(script())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("flights/offsets/12", None),
        ("flights/state/0/0/13.delta", b"rowz"),
        ("flights.files", b""),
        ("flights.files", None),
    ],
)
def test_of_a_torn_savepoint_nothing_is_forked(name: str, data: bytes | None) -> None:
    stored, manifest = written()
    target = MemoryBlobStore()
    damaged = {key: value for key, value in {**stored, name: data}.items() if value is not None}
    with pytest.raises(DocumentUnreadable, match="torn"):
        asyncio.run(saved_files.fork(MemoryBlobStore(damaged), manifest, target, below(target)))
    assert target.stored == {}


def test_what_is_discarded_has_no_manifest_first() -> None:
    stored, _ = written()
    verbs: list[str] = []

    def note(verb: str) -> str:
        verbs.append(verb)
        return ""

    store = MemoryBlobStore(stored, fault=note)
    asyncio.run(saved_files.discard(store))
    assert store.stored == {}
    assert verbs[:2] == ["delete", "names"]
