"""What a client of the API server does with answers that a real one gives too seldom for a test: 429, 401, half an answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.answering import served, serving
from understudy.documents.api_server import Answer, ApiServer
from understudy.documents.kubernetes import KubernetesDocumentStore
from understudy.documents.model import Content, Unknown
from understudy.errors import DocumentError, ServerUnreachable

BUSY = {"message": "too many requests"}
MISSING = {"kind": "Status", "message": "not found"}


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        if len(asked) == 1:
            return web.json_response(BUSY, status=429, headers={"Retry-After": "0"})
        return web.json_response({"kind": "Pod"})

    answer = asyncio.run(served(handler, lambda api: api.request("GET", "/pod")))
    assert answer == Answer(200, {"kind": "Pod"})
    assert asked == ["/pod", "/pod"]


def test_a_write_that_a_busy_server_refused_for_longer_than_we_may_wait_has_certainly_not_landed() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(MISSING, status=404)
        return web.json_response(BUSY, status=429, headers={"Retry-After": "5"})

    async def create(api: ApiServer) -> object:
        return await KubernetesDocumentStore(api).create("lock", Content({"a": "b"}))

    with pytest.raises(DocumentError, match="too many requests"):
        asyncio.run(served(handler, create, within=0.5))


def test_of_a_write_without_an_answer_in_time_nobody_knows() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(MISSING, status=404)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata": ')
        await asyncio.sleep(3600)
        return response

    async def create(api: ApiServer) -> object:
        return await KubernetesDocumentStore(api).create("lock", Content({"a": "b"}))

    assert isinstance(asyncio.run(served(handler, create, within=0.5)), Unknown)


def test_a_token_that_was_replaced_is_read_again_once(tmp_path: Path) -> None:
    mounted = tmp_path / "token"
    mounted.write_text("old")
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        mounted.write_text("new")
        good = seen[-1] == "Bearer new"
        return web.Response(text=json.dumps({"ok": good}), status=200 if good else 401)

    answer = asyncio.run(served(handler, lambda api: api.request("GET", "/pod"), token=mounted))
    assert answer == Answer(200, {"ok": True})
    assert seen == ["Bearer old", "Bearer new"]


def test_a_token_that_is_refused_again_is_the_answer(tmp_path: Path) -> None:
    mounted = tmp_path / "token"
    mounted.write_text("old")

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"message": "who are you"}, status=401)

    answer = asyncio.run(served(handler, lambda api: api.request("GET", "/pod"), token=mounted))
    assert isinstance(answer, Answer)
    assert answer.status == 401


@pytest.mark.parametrize("page", ["<html>Sign in</html>", '{"error": "no backend"}', "[]"])
@pytest.mark.parametrize("status", [200, 404])
def test_a_proxys_page_is_neither_a_document_nor_its_absence(page: str, status: int) -> None:
    async def handler(request: web.Request) -> web.Response:
        del request
        return web.Response(text=page, status=status)

    with pytest.raises(ServerUnreachable, match="what answers is no API server"):
        asyncio.run(served(handler, lambda api: KubernetesDocumentStore(api).read("lock")))


def test_of_a_write_that_a_proxy_answered_it_is_unknown_whether_it_landed() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(MISSING, status=404)
        return web.Response(text="<html>Sign in</html>")

    outcome = asyncio.run(served(handler, lambda api: KubernetesDocumentStore(api).create("lock", Content({"a": "b"}))))
    assert isinstance(outcome, Unknown)
    assert "no API server" in outcome.cause


def event(size: int = 1) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": {"kind": "Pod", "big": "x" * size}}).encode() + b"\n"


async def watched(*sent: bytes) -> tuple[int, str]:
    """How many events a watch gave that was sent this, and why it ended."""
    seen = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for data in sent:
            await response.write(data)
        await response.write_eof()
        return response

    async def watch(api: ApiServer) -> str:
        nonlocal seen
        try:
            async for _ in api.watch("/pods"):
                seen += 1
        except DocumentError as error:
            return str(error)
        return ""

    reason = await served(handler, watch)
    return seen, str(reason)


@pytest.mark.parametrize(
    ("sent", "seen", "words"),
    [
        ((event(), event()), 2, ""),
        ((event(), event()[:20], event()[20:]), 2, ""),
        ((event(1_400_000), event()), 2, ""),
        ((event(), event()[:40]), 1, "it ended within a line"),
        ((b"<html>502 Bad Gateway</html>\n",), 0, "<html>502 Bad Gateway</html>"),
        ((b"[]\n",), 0, "the watch broke"),
        ((event(), b'{"type": "ERROR", "object": {"message": "too old"}}\n'), 1, "too old"),
        ((event(), b"x" * (5 << 20)), 1, "a line of more than 4 MiB"),
    ],
    ids=["whole", "in pieces", "a large object", "torn", "a proxy's page", "no event", "an error", "without an end"],
)
def test_a_watch_gives_whole_events_and_breaks_on_anything_else(sent: tuple[bytes, ...], seen: int, words: str) -> None:
    """``ValueError`` came out of half a line and of an object of more than 128 KiB, and the task that watched was dead."""
    found, reason = asyncio.run(watched(*sent))
    assert found == seen
    assert words in reason
    assert bool(words) is bool(reason)


def test_a_watch_that_lasts_too_long_ends_and_does_not_end_who_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time-out may come while the listener awaits something of its own: it was the listener that was canceled then."""
    monkeypatch.setattr("understudy.documents.api_server._WATCH_FOR", 0)
    listened: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(event())
            await asyncio.sleep(0.01)

    async def listen(api: ApiServer) -> None:
        async for _ in api.watch("/pods"):
            await asyncio.sleep(0.5)
            listened.append("to the end")

    with pytest.raises(TimeoutError):
        asyncio.run(served(handler, listen, within=0.1))
    assert listened


@pytest.mark.parametrize("seconds", [0.0, 0.6])
def test_credentials_of_a_plug_in_are_asked_for_again_when_they_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Those of clouds are good for a quarter of an hour, and a command may wait for a day. ``seconds``: what the plug-in takes."""
    plug_in, runs = tmp_path / "plug-in", tmp_path / "runs"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}
    told = json.dumps(credential).replace('"t"', '"t\'$(wc -l <"$runs")\'"').replace("\n", "")
    plug_in.write_text(
        f"#!/bin/sh\nruns={runs}\necho >>$runs\n[ $(wc -l <$runs) = 1 ] || sleep {seconds}\necho '{told}'\n"
    )
    plug_in.chmod(0o755)
    valid = "t1"

    async def handler(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {valid}":
            return web.json_response({"kind": "Status", "message": "who are you"}, status=401)
        return web.json_response(MISSING, status=404)

    async def run() -> None:
        nonlocal valid
        async with serving(handler) as url:
            user = {
                "exec": {"apiVersion": credential["apiVersion"], "command": str(plug_in), "interactiveMode": "Never"}
            }
            kubeconfig = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "it", "user": "me", "namespace": "ours"}}],
                "clusters": [{"name": "it", "cluster": {"server": url}}],
                "users": [{"name": "me", "user": user}],
            }
            (tmp_path / "config").write_text(json.dumps(kubeconfig))
            async with await ApiServer.connect(0.3) as api:
                store = KubernetesDocumentStore(api)
                assert await store.read("lock") is None
                valid = "t2"
                if seconds:
                    with pytest.raises(ServerUnreachable):
                        await store.read("lock")
                    await asyncio.sleep(seconds)
                assert await store.read("lock") is None
        assert runs.read_text() == "\n\n", "it is asked once, however many requests wait for it"

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    asyncio.run(run())
