"""What only documents in a bucket meet: a server that is slow, busy or away, and one that ignores conditions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit import s3
from tests.contract.backends import PATIENT, bucket_settings
from tests.contract.test_documents import NAME, standing, written
from understudy.documents.model import Conflict, Content, Unknown, Written
from understudy.documents.s3 import S3DocumentStore
from understudy.errors import AccessDenied, DocumentError, EnvironmentProblem, ServerUnreachable
from understudy.s3.settings import S3Settings


@asynccontextmanager
async def behind(
    port: int, place: Path, rule: s3.Rule = lambda _: "pass", *, timeout: float = PATIENT, **options: Any
) -> AsyncIterator[tuple[S3DocumentStore, s3.S3Proxy]]:
    with s3.S3Proxy(port, rule, **options).running() as proxy:
        yield S3DocumentStore(s3.BUCKET, place.name, bucket_settings(proxy.port), timeout, look=0.02), proxy


def on_put(fault: str) -> s3.Rule:
    return lambda line: fault if line.startswith("PUT ") else "pass"


def test_a_renewal_costs_one_request_and_a_replacement_of_what_is_not_known_here_costs_two(
    server: int, tmp_path: Path
) -> None:
    async def run() -> None:
        async with behind(server, tmp_path) as (store, proxy):
            document = written(await store.create(NAME, Content({"n": "0"})))
            for number in range(1, 6):
                document = written(await store.replace(document, Content({"n": str(number)})))
            assert [line.split(" ")[0] for line in proxy.seen] == ["PUT"] * 6
            assert (store.requests["requests"], store.requests["writes"]) == (6, 6)
        async with behind(server, tmp_path) as (other, proxy):
            written(await other.replace(document, Content({"n": "6"})))
            assert [line.split(" ")[0] for line in proxy.seen] == ["GET", "PUT"]

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["500", "503", "swallow", "torn", "late 500"])
def test_a_write_without_a_certain_answer_is_unknown_and_sent_once(server: int, tmp_path: Path, fault: str) -> None:
    async def run() -> None:
        async with behind(server, tmp_path) as (store, proxy):
            document = written(await store.create(NAME, Content({"n": "0"})))
            proxy.rule = on_put(fault)
            assert isinstance(await store.replace(document, Content({"n": "1"})), Unknown)
            assert len(proxy.puts(NAME)) == 2
            proxy.rule = on_put("pass")
            landed = fault in {"swallow", "late 500"}
            assert (await standing(store)).entries == {"n": "1" if landed else "0"}

    asyncio.run(run())


def test_a_write_that_something_on_the_way_sent_twice_is_known_to_be_ones_own(server: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with behind(server, tmp_path) as (store, proxy):
            document = written(await store.create(NAME, Content({"n": "0"})))
            proxy.rule = on_put("late 412")
            outcome = await store.replace(document, Content({"n": "1"}))
            assert outcome == Written(await standing(store))
            assert written(outcome).entries == {"n": "1"}

    asyncio.run(run())


def test_an_equal_write_of_another_client_is_not_ones_own(server: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with behind(server, tmp_path) as (store, _), behind(server, tmp_path) as (other, _):
            document = written(await store.create(NAME, Content({"n": "0"})))
            theirs = written(await other.replace(document, Content({"n": "1"})))
            assert await store.replace(document, Content({"n": "1"})) == Conflict(theirs)

    asyncio.run(run())


def test_what_is_refused_because_the_server_is_busy_is_unknown(server: int, tmp_path: Path) -> None:
    """AWS answers 409 while another write of the object is under way; that one may land or not."""

    async def run() -> None:
        async with behind(server, tmp_path, on_put("409")) as (store, proxy):
            assert isinstance(await store.create(NAME, Content({"n": "0"})), Unknown)
            proxy.rule = on_put("pass")
            document = written(await store.create(NAME, Content({"n": "0"})))
            proxy.rule = on_put("409")
            assert isinstance(await store.replace(document, Content({"n": "1"})), Unknown)

    asyncio.run(run())


def test_a_server_that_hangs_takes_one_requests_time(server: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with behind(server, tmp_path) as (store, _):
            document = written(await store.create(NAME, Content({"n": "0"})))
        async with behind(server, tmp_path, lambda _: "hang", timeout=0.2) as (store, proxy):
            with pytest.raises(ServerUnreachable, match=NAME):
                await store.read(NAME)
            assert isinstance(await store.replace(document, Content({"n": "1"})), Unknown)
            async with asyncio.timeout(PATIENT):
                while len(proxy.seen) < 2:  # noqa: ASYNC110 - a thread reads what was sent
                    await asyncio.sleep(0.01)
            assert len(proxy.seen) == 2

    asyncio.run(run())


def test_a_watcher_outlives_a_server_that_is_away(server: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with behind(server, tmp_path) as (watching, proxy), behind(server, tmp_path) as (store, _):
            first = written(await store.create(NAME, Content({"n": "0"})))
            watch = aiter(watching.watch(NAME))
            async with asyncio.timeout(PATIENT):
                assert await anext(watch) == first
                told = asyncio.ensure_future(anext(watch))
                while len(proxy.seen) < 4:  # noqa: ASYNC110 - a thread counts
                    await asyncio.sleep(0.01)
                assert not told.done()
                assert all(line.startswith("GET ") for line in proxy.seen)
                with proxy.away():
                    second = written(await store.replace(first, Content({"n": "1"})))
                    await asyncio.sleep(0.1)
                assert await told == second
            await watch.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_probe_leaves_one_object_that_is_no_document_however_many_replicas_start(server: int, tmp_path: Path) -> None:
    async def run() -> None:
        async with behind(server, tmp_path) as (store, _):
            await asyncio.gather(*(store.probe() for _ in range(4)))
            await store.probe()
            assert await store.names() == []
            written(await store.create("flights-lock", Content({"n": "0"})))
            assert await store.names() == ["flights-lock"]

    asyncio.run(run())


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_a_server_that_ignores_conditions_is_found_out(server: int, tmp_path: Path, header: str) -> None:
    async def run() -> None:
        async with behind(server, tmp_path, ignored=header.lower()) as (store, _):
            with pytest.raises(EnvironmentProblem, match=rf"s3a://{s3.BUCKET}.*\({header}\)"):
                await store.probe()

    asyncio.run(run())


def test_wrong_keys_and_a_bucket_that_is_not_there_are_told_apart(server: int, tmp_path: Path) -> None:
    async def run() -> None:
        place = f"http://127.0.0.1:{server}"
        keys = S3Settings(place, "us-east-1", path_style=True, key=s3.KEY, secret="wrong")
        store = S3DocumentStore(s3.BUCKET, tmp_path.name, keys, PATIENT)
        for request in (store.read(NAME), store.create(NAME, Content()), store.probe()):
            with pytest.raises(AccessDenied, match="credentials"):
                await request
        nowhere = S3DocumentStore("no-such-bucket", tmp_path.name, bucket_settings(server), PATIENT)
        for request in (nowhere.read(NAME), nowhere.create(NAME, Content()), nowhere.probe()):
            with pytest.raises(DocumentError, match="no such bucket"):
                await request

    asyncio.run(run())
