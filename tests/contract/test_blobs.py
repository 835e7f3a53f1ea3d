"""The contract of blob stores, on every backend: memory, a directory, and a real S3 server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from obstore import put_async
from obstore.store import S3Store

from testkit import s3
from tests.contract.blob_backends import PATIENT, Made, bucket
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.blobs.model import BlobStore
from understudy.blobs.probe import probe
from understudy.blobs.s3 import S3BlobStore
from understudy.errors import AccessDenied, DocumentError, EnvironmentProblem, ServerUnreachable, SettingsError
from understudy.s3.client import store_config
from understudy.s3.settings import S3Settings


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


def test_what_is_created_is_read_as_it_was(store: BlobStore) -> None:
    async def script() -> None:
        for name, data in (("a", b""), ("deep/er/b", bytes(range(256)) * 5000)):
            assert await store.read(name) is None
            assert await store.create(name, data) == data
            assert await store.read(name) == data

    run(script)


def test_what_stands_there_is_never_replaced(store: BlobStore) -> None:
    async def script() -> None:
        await store.create("a", b"first")
        assert await store.create("a", b"second") == b"first"
        assert await store.create("a", b"first") == b"first"
        assert await store.read("a") == b"first"

    run(script)


def test_of_sixteen_writers_of_one_name_one_is_first_and_all_are_told_which(another: Made) -> None:
    async def script() -> None:
        for turn in range(5):
            stores = [another() for _ in range(16)]
            told = await asyncio.gather(
                *(each.create(f"contested-{turn}", b"%d" % number) for number, each in enumerate(stores))
            )
            assert len(set(told)) == 1
            assert await stores[0].read(f"contested-{turn}") == told[0]
            for each in stores:
                await each.close()

    run(script)


def test_a_name_is_free_once_it_is_deleted_and_may_be_deleted_twice(store: BlobStore) -> None:
    async def script() -> None:
        await store.delete("a")
        await store.create("a", b"first")
        await store.delete("a")
        await store.delete("a")
        assert await store.read("a") is None
        assert await store.create("a", b"second") == b"second"

    run(script)


def test_names_are_listed_in_order_below_their_prefix(store: BlobStore) -> None:
    async def script() -> None:
        assert await store.names("") == []
        names = ["jobs/b/2", "jobs/a", "jobs/b/1", "jobsnot/c", "x"]
        for name in names:
            await store.create(name, b"")
        assert await store.names("") == sorted(names)
        assert await store.names("jobs/") == ["jobs/a", "jobs/b/1", "jobs/b/2"]
        assert await store.names("jobs/b/") == ["jobs/b/1", "jobs/b/2"]
        assert await store.names("none/") == []
        await store.delete("jobs/b/1")
        assert await store.names("jobs/b/") == ["jobs/b/2"]

    run(script)


def test_directories_are_listed_once_each_and_not_what_is_deeper(store: BlobStore) -> None:
    async def script() -> None:
        assert await store.directories("savepoints/c/") == []
        for name in ("12-ab/x/1", "12-ab/x/2", "9/y", "file"):
            await store.create(f"savepoints/c/{name}", b"")
        await store.create("savepoints/cc/7/z", b"")
        assert await store.directories("savepoints/c/") == ["12-ab", "9"]

    run(script)


def test_more_names_than_one_page_of_a_server_are_listed(store: BlobStore) -> None:
    async def script() -> None:
        names = [f"many/{number:04}" for number in range(1100)]
        for start in range(0, len(names), 25):
            await asyncio.gather(*(store.create(name, b"") for name in names[start : start + 25]))
        assert await store.names("many/") == names

    run(script)


def test_what_is_below_a_prefix_is_discarded_and_may_be_twice(store: BlobStore) -> None:
    async def script() -> None:
        for name in ("scratch/a/1", "scratch/a/b/2", "scratch/ab", "x"):
            await store.create(name, b"")
        assert await store.discard("scratch/a/") == 2
        assert await store.discard("scratch/a/") == 0
        assert await store.names("") == ["scratch/ab", "x"]

    run(script)


def test_more_than_one_page_of_a_server_is_discarded(store: BlobStore) -> None:
    async def script() -> None:
        for start in range(0, 1100, 25):
            await asyncio.gather(*(store.create(f"many/{number:04}", b"") for number in range(start, start + 25)))
        assert await store.discard("many/") == 1100
        assert await store.names("") == []

    run(script)


@pytest.mark.parametrize("prefix", ["", "/", "a", "../", "a/../", "/a/", "a//"])
def test_what_is_no_part_of_a_store_is_not_discarded(store: BlobStore, prefix: str) -> None:
    async def script() -> None:
        await store.create("a/b", b"")
        with pytest.raises(SettingsError):
            await store.discard(prefix)
        assert await store.names("") == ["a/b"]

    run(script)


#: Everything that a run's id may consist of.
ODD = "2026-11-26T10:00:00+01:00_a@b=c~d.e"


def test_every_character_of_a_runs_id_may_be_in_a_name(store: BlobStore) -> None:
    async def script() -> None:
        await store.create(f"runs/{ODD}.json", b"x")
        assert await store.read(f"runs/{ODD}.json") == b"x"
        assert await store.names("runs/") == [f"runs/{ODD}.json"]

    run(script)


@pytest.mark.parametrize(
    "name",
    ["", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a b", "a\n", "ä", "a%2Fb", "a" * 201, "a/" * 400 + "a"],
)
def test_a_name_that_some_store_could_not_hold_is_refused_by_all(store: BlobStore, name: str) -> None:
    async def script() -> None:
        for request in (store.read(name), store.create(name, b""), store.delete(name)):
            with pytest.raises(SettingsError):
                await request

    run(script)


def test_the_promise_is_found_out_by_trying_and_all_trials_leave_one_blob(another: Made) -> None:
    async def script() -> None:
        for _ in range(2):
            await asyncio.gather(*(probe(another()) for _ in range(4)))
        assert await another().names("") == ["probe"]

    run(script)


class TestFilesystem:
    def test_a_writer_that_dies_leaves_nothing_that_is_listed_or_read(self, tmp_path: Path) -> None:
        (tmp_path / "blobs").mkdir()
        (tmp_path / "blobs" / ".new-half").write_bytes(b"half")
        store = FilesystemBlobStore(tmp_path / "blobs", PATIENT)
        assert asyncio.run(store.names("")) == []

    def test_a_disk_that_refuses_is_an_error_that_names_the_blob(self, tmp_path: Path) -> None:
        (tmp_path / "blobs").write_text("a file")
        with pytest.raises(DocumentError, match="blobs/a: "):
            asyncio.run(FilesystemBlobStore(tmp_path / "blobs", PATIENT).create("a", b""))


@asynccontextmanager
async def behind(server: int, rule: s3.Rule, **options: Any) -> AsyncIterator[tuple[S3BlobStore, s3.S3Proxy]]:
    with s3.S3Proxy(server, rule, **options).running() as proxy:
        yield bucket(proxy.port, "faults", timeout=5.0), proxy  # type: ignore[misc]


async def make_directory(server: int, path: str) -> None:
    """As S3A does: an empty object whose name ends with a slash. The client makes none but by an endpoint that is that path."""
    endpoint = f"http://127.0.0.1:{server}/{s3.BUCKET}/{path}"
    at = S3Store(
        s3.BUCKET,
        config={
            "endpoint": endpoint,
            "region": "us-east-1",
            "virtual_hosted_style_request": True,
            "access_key_id": s3.KEY,
            "secret_access_key": s3.SECRET,
        },
        client_options={"allow_http": True},
    )
    await put_async(at, "", b"")


def times(fault: str, number: int, verb: str) -> s3.Rule:
    """The first requests with this verb meet it."""
    left = [number]

    def rule(line: str) -> str:
        if line.startswith(verb) and left[0]:
            left[0] -= 1
            return fault
        return "pass"

    return rule


class TestS3:
    @pytest.mark.parametrize("fault", ["503", "late 500", "swallow"])
    def test_a_create_whose_answer_failed_is_sent_again_and_told_the_truth(
        self, server: int, tmp_path: Path, fault: str
    ) -> None:
        async def script() -> None:
            name = f"a-{tmp_path.name}"
            async with behind(server, times(fault, 1, "PUT")) as (store, proxy):
                assert await store.create(name, b"ours") == b"ours"
                assert len(proxy.puts(name)) == 2
                assert await store.create(name, b"theirs") == b"ours"

        run(script)

    def test_of_an_upload_that_breaks_off_nothing_stands_and_the_next_one_is_whole(
        self, server: int, tmp_path: Path
    ) -> None:
        async def script() -> None:
            name, data = f"t-{tmp_path.name}", b"x" * 300_000
            async with behind(server, lambda line: "torn" if line.startswith("PUT") else "pass") as (torn, proxy):
                with pytest.raises(ServerUnreachable):
                    await torn.create(name, data)
                assert len(proxy.puts(name)) > 1, "it was tried again"
                assert await torn.read(name) is None
            async with behind(server, times("torn", 1, "PUT")) as (store, proxy):
                assert await store.create(name, data) == data
                assert len(proxy.puts(name)) == 2
                assert await store.read(name) == data

        run(script)

    @pytest.mark.parametrize("verb", ["GET", "DELETE"])
    def test_reads_and_deletes_are_sent_again(self, server: int, tmp_path: Path, verb: str) -> None:
        async def script() -> None:
            name = f"b-{tmp_path.name}"
            async with behind(server, times("503", 2, verb)) as (store, _):
                await store.create(name, b"x")
                assert await store.read(name) == b"x"
                assert name in await store.names("")
                await store.delete(name)
                assert await store.read(name) is None

        run(script)

    def test_what_spark_has_written_is_discarded_by_names_that_no_blob_has(self, server: int, tmp_path: Path) -> None:
        async def script() -> None:
            store = bucket(server, f"odd-{tmp_path.name}")
            assert isinstance(store, S3BlobStore)
            for name in (".part-0.crc", "day=2026-11-26 10%3A00/part 1+2.parquet", "_temporary/0/ü"):
                await put_async(store._at.store, f"odd-{tmp_path.name}/scratch/h/{name}", b"")
            assert await store.discard("scratch/h/") == 3
            assert await store.names("") == []

        run(script)

    def test_a_server_that_stays_away_is_an_error_in_time(self, server: int) -> None:
        async def script() -> None:
            async with behind(server, lambda _: "503") as (store, _):
                for request in (
                    store.read("a"),
                    store.create("a", b""),
                    store.delete("a"),
                    store.names(""),
                    store.discard("a/"),
                ):
                    with pytest.raises(ServerUnreachable, match="s3a://bucket/faults/"):
                        await request

        run(script)

    def test_a_server_that_hangs_is_an_error_in_time(self, server: int) -> None:
        async def script() -> None:
            with s3.S3Proxy(server, lambda _: "hang").running() as proxy, pytest.raises(ServerUnreachable):
                await bucket(proxy.port, "hangs", timeout=0.5).read("a")

        run(script)

    def test_a_directory_that_s3a_leaves_is_no_blob(self, server: int) -> None:
        async def script() -> None:
            store = bucket(server, "markers")
            await store.create("jobs/5/a", b"")
            await make_directory(server, "markers/jobs/5")
            await make_directory(server, "markers/jobs/6")
            assert await store.names("jobs/") == ["jobs/5/a"], "and what is empty is one"
            assert await store.discard("jobs/") == 1
            await make_directory(server, "markers/jobs/5")
            assert await store.names("") == []
            assert await store.discard("jobs/") == 0

        run(script)

    def test_each_page_of_a_listing_has_the_time_of_a_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def pages(*_: object) -> AsyncIterator[list[dict[str, object]]]:
            for number in range(4):
                await asyncio.sleep(0.4)
                yield [{"path": f"many/{number}", "size": 1}]

        monkeypatch.setattr("understudy.blobs.s3.list_objects", pages)
        assert len(asyncio.run(bucket(1, "", timeout=0.5).names("many/"))) == 4

    def test_a_server_that_ignores_conditions_is_found_out(self, server: int) -> None:
        async def script() -> None:
            async with behind(server, lambda _: "pass", ignored="if-none-match") as (store, _):
                with pytest.raises(EnvironmentProblem, match="If-None-Match"):
                    await probe(store)

        run(script)

    def test_wrong_keys_are_told_from_a_server_that_is_away(self, server: int) -> None:
        with pytest.raises(AccessDenied, match="Check the credentials"):
            asyncio.run(bucket(server, "", secret="wrong").create("a", b""))

    def test_a_bucket_that_is_not_there_is_told_by_name(self, server: int) -> None:
        with pytest.raises(DocumentError, match="s3a://nowhere/a: there is no such bucket"):
            asyncio.run(bucket(server, "", name="nowhere").create("a", b""))

    def test_a_bucket_is_a_part_of_the_hosts_name_unless_s3a_says_otherwise_or_there_are_no_such_names(self) -> None:
        def told(endpoint: str, *, path_style: bool = False) -> tuple[object, object]:
            config = store_config(S3Settings(endpoint, path_style=path_style), "b")
            return config["virtual_hosted_style_request"], config.get("endpoint")

        assert told("https://store.example.com:9000") == (True, "https://b.store.example.com:9000")
        assert told("https://store.example.com", path_style=True) == (False, "https://store.example.com")
        assert told("") == (True, None)
        for endpoint in ("", "https://store.example.com"):
            dotted = store_config(S3Settings(endpoint), "b.example.com")
            assert (dotted["virtual_hosted_style_request"], dotted.get("endpoint")) == (False, endpoint or None)
        for address in ("http://127.0.0.1:9000", "http://10.0.0.1", "http://[::1]:9000", "http://minio:9000"):
            assert told(address) == (False, address)

    def test_keys_of_the_settings_are_not_completed_from_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-key")
        heads: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()

        async def script() -> None:
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            async with server:
                assert await bucket(server.sockets[0].getsockname()[1], "").read("a") is None

        run(script)
        assert "aws4-hmac-sha256 credential=understudy/" in heads[0]
        assert "x-amz-security-token" not in heads[0]
