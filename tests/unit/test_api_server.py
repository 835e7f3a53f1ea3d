"""What a client of the API server does with answers that a real one gives too seldom for a test: 429, 401, half an answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.answering import served
from understudy.documents.api_server import Answer, ApiServer
from understudy.documents.kubernetes import KubernetesDocumentStore
from understudy.documents.model import Content, Unknown
from understudy.errors import DocumentError

BUSY = {"message": "too many requests"}


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
            return web.json_response({"message": "not found"}, status=404)
        return web.json_response(BUSY, status=429, headers={"Retry-After": "5"})

    async def create(api: ApiServer) -> object:
        return await KubernetesDocumentStore(api).create("lock", Content({"a": "b"}))

    with pytest.raises(DocumentError, match="too many requests"):
        asyncio.run(served(handler, create))


def test_of_a_write_without_an_answer_in_time_nobody_knows() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"message": "not found"}, status=404)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata": ')
        await asyncio.sleep(3600)
        return response

    async def create(api: ApiServer) -> object:
        return await KubernetesDocumentStore(api).create("lock", Content({"a": "b"}))

    assert isinstance(asyncio.run(served(handler, create)), Unknown)


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
