"""The documents' contract against three members, and what only etcd can get wrong."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from etcd_tests.backend import Etcd
from etcd_tests.server import Cluster, running
from testkit.faults import Fault
from testkit.ports import ports
from tests.contract.backends import PATIENT
from tests.contract.histories import CLIENTS, MOVES, play

# The suite itself, run again here: pytest collects what these modules have, and finds the fixtures of conftest.py.
from tests.contract.test_component_election import *  # noqa: F403
from tests.contract.test_documents import *  # noqa: F403
from tests.contract.test_documents import NAME, standing, written
from tests.contract.test_election import *  # noqa: F403
from tests.contract.test_settling import *  # noqa: F403
from tests.contract.test_stored_form import *  # noqa: F403
from understudy.services.plugin import Conflict, Content, Document, DocumentTooLarge, ServerUnreachable, Unknown


@pytest.mark.parametrize("seed", range(6))  # type: ignore[no-redef]
def test_all_clients_see_one_history(backend: Etcd, seed: int) -> None:
    choose = random.Random(seed)
    asyncio.run(play(backend, [(choose.randrange(CLIENTS), choose.choice(MOVES)) for _ in range(25)]))


def test_a_key_that_was_deleted_and_made_again_is_another_one(backend: Etcd) -> None:
    async def run() -> None:
        store = backend.client()
        seen = written(await store.create(NAME, Content({"a": "1"})))
        backend.remove(NAME)
        again = written(await backend.client().create(NAME, Content({"a": "2"})))
        assert await store.replace(seen, Content({"a": "3"})) == Conflict(again)
        assert await store.read(NAME) == again

    asyncio.run(run())


def test_a_read_shows_what_was_answered_by_another_member(backend: Etcd) -> None:
    async def run() -> None:
        async with AsyncExitStack() as opened:
            hosts = [each.address for each in backend.cluster.members]
            stores = [await opened.enter_async_context(backend.opened(each)) for each in hosts]
            document = written(await stores[0].create(NAME, Content({"n": "0"})))
            for n in range(60):
                writer, reader = stores[n % 3], stores[(n + 1) % 3]
                document = written(await writer.replace(document, Content({"n": str(n)})))
                assert await reader.read(NAME) == document

    asyncio.run(run())


def test_a_write_whose_connection_breaks_is_unknown_and_sent_once(backend: Etcd) -> None:
    """Also where another member could be asked."""

    async def run() -> None:
        seen = written(await backend.client().create(NAME, Content({"n": "0"})))
        proxy = backend.proxy(Fault.LOST_ANSWER)
        hosts = f"127.0.0.1:{proxy.port},{backend.cluster.hosts}"
        async with backend.opened(hosts) as store:
            assert isinstance(await store.replace(seen, Content({"n": "1"})), Unknown)
            now = await standing(store)
        assert now.entries == {"n": "1"}
        assert int(now.revision) == int(seen.revision) + 1
        assert len([line for line in proxy.seen if "/v3/kv/txn" in line]) == 1

    asyncio.run(run())


def test_a_member_that_takes_no_connection_is_passed_over_and_nothing_is_unknown(backend: Etcd) -> None:
    async def run() -> None:
        async with backend.opened(f"127.0.0.1:{nowhere},{backend.cluster.hosts}") as store:
            written(await store.create(NAME, Content({"a": "1"})))

    with ports(1) as (nowhere,):
        asyncio.run(run())


def test_a_member_that_does_not_answer_in_time_is_left_for_another_one(backend: Etcd) -> None:
    async def run() -> None:
        seen = written(await backend.client().create(NAME, Content({"a": "1"})))
        proxy = backend.proxy()
        proxy.rule = lambda _: "hang"
        async with backend.opened(f"127.0.0.1:{proxy.port},{backend.cluster.hosts}", 0.5) as store:
            with pytest.raises(ServerUnreachable, match="no answer within 0.5 s"):
                await store.read(NAME)
            written(await store.replace(seen, Content({"a": "2"})))
        async with backend.opened(f"127.0.0.1:{proxy.port}", 0.5) as store:
            assert isinstance(await store.create(f"{NAME}-2", Content({"a": "1"})), Unknown)

    asyncio.run(run())


async def changed(backend: Etcd, seen: Document) -> Document:
    """Another client changes it, by way of members that are whole; they may have to elect one first."""
    async with backend.opened(timeout=2.0) as store:
        while True:
            with suppress(ServerUnreachable):
                await store.replace(seen, Content({"a": "2"}))
                if (now := await standing(store)) != seen:
                    return now


def test_a_watcher_whose_member_is_killed_goes_on_with_another_one(backend: Etcd) -> None:
    async def run() -> None:
        victim = backend.cluster.members[-1]
        async with backend.opened(f"{victim.address},{backend.cluster.hosts}", 5.0) as store:
            first = written(await store.create(NAME, Content({"a": "1"})))
            watch = aiter(store.watch(NAME))
            async with asyncio.timeout(PATIENT):
                assert await anext(watch) == first
                victim.kill()
                second = await changed(backend, first)
                assert await anext(watch) == second
            await watch.aclose()  # type: ignore[attr-defined]

    try:
        asyncio.run(run())
    finally:
        backend.cluster.repair()


def test_a_watcher_whose_member_is_frozen_looks_by_itself_at_another_one(
    backend: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy_etcd.documents._LOOK", 0.2)
    victim = backend.cluster.members[-1]

    async def run() -> None:
        first = written(await backend.client().create(NAME, Content({"a": "1"})))
        async with backend.opened(f"{victim.address},{backend.cluster.hosts}", 1.0) as store:
            watch = aiter(store.watch(NAME))
            async with asyncio.timeout(PATIENT):
                assert await anext(watch) == first
                victim.freeze()
                second = await changed(backend, first)
                assert await anext(watch) == second
            await watch.aclose()  # type: ignore[attr-defined]

    try:
        asyncio.run(run())
    finally:
        backend.cluster.repair()


def test_a_watcher_to_whom_no_change_gets_through_looks_by_itself(backend: Etcd) -> None:
    async def run() -> None:
        async with backend.opened() as store:
            first = written(await store.create(NAME, Content({"a": "1"})))
            proxy = backend.proxy()
            # This proxy passes on whole answers, and a watch's has no end.
            async with backend.opened(f"127.0.0.1:{proxy.port}", 1.0) as watcher:
                watch = aiter(watcher.watch(NAME))
                async with asyncio.timeout(PATIENT):
                    assert await anext(watch) == first
                    second = written(await store.replace(first, Content({"a": "2"})))
                    assert await anext(watch) == second
                await watch.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_without_most_members_a_read_fails_and_a_write_is_unknown_and_all_is_there_when_they_are_back(
    backend: Etcd,
) -> None:
    cluster = backend.cluster

    async def run() -> None:
        async with backend.opened(timeout=2.0) as store:
            seen = written(await store.create(NAME, Content({"n": "0"})))
            for each in cluster.members[1:]:
                each.kill()
            with pytest.raises(ServerUnreachable):
                await store.read(NAME)
            # A member that has lost the others keeps what it was given, and it may land when they are back.
            assert isinstance(await store.create(f"{NAME}-2", Content({"n": "0"})), Unknown)
            await asyncio.to_thread(cluster.repair)
            assert await standing(store) == seen
            written(await store.replace(seen, Content({"n": "1"})))

    try:
        asyncio.run(run())
    finally:
        cluster.repair()


def test_what_is_too_large_for_the_server_is_refused_and_not_unknown(backend: Etcd, tmp_path: Path) -> None:
    async def run(small: Cluster) -> None:
        async with Etcd(small).opened() as store:
            with pytest.raises(DocumentTooLarge, match="max-request-bytes"):
                await store.create(NAME, Content({"a": "x" * 100_000}))
            assert await store.read(NAME) is None

    with running(tmp_path, 1, "--max-request-bytes", "65536") as small:
        asyncio.run(run(small))
