"""Which executors a replica asks the API server to delete, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from tests.unit.answering import served
from understudy.documents.api_server import ApiServer
from understudy.events import Event, Log
from understudy.supervisor.native import Native

OF = "understudy.dev/executor-of=flights"


class Asked:
    """``answers`` with a status; ``selectors``: what it was asked to delete."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.selectors, self.said = status, list[str](), list[Event]()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert (request.method, request.path) == ("DELETE", "/api/v1/namespaces/tests/pods")
        self.selectors.append(request.query["labelSelector"])
        return web.json_response({"items": [{"metadata": {"name": "exec-1"}}]}, status=self.status)

    def by(self, ask: Callable[[Native, Log], Awaitable[None]]) -> Asked:
        log = Log(listeners=[self.said.append])

        async def asks(api: ApiServer) -> None:
            await ask(Native(api, "flights", "me", "pod", "10.0.0.1", "image", 1), log)

        asyncio.run(served(self.answer, asks))
        return self


def test_those_of_drivers_that_are_gone_go_and_those_of_living_replicas_stay() -> None:
    asked = Asked().by(lambda native, log: native.clear(["b", "a"], log))
    assert asked.selectors == [f"{OF},understudy.dev/holder notin (a,b,me)"]
    asked = Asked().by(lambda native, log: native.clear(["b", "a"], log, own=True))
    assert asked.selectors == [f"{OF},understudy.dev/holder notin (a,b)"]


def test_those_of_its_own_earlier_drivers_go_and_nothing_else() -> None:
    asked = Asked().by(lambda native, log: native.clear_own(log))
    assert asked.selectors == [f"{OF},understudy.dev/holder=me"]
    (said,) = asked.said
    assert (said.event, said.facts["pods"]) == ("executors-deleted", ["exec-1"])


@pytest.mark.parametrize("status", [403, 500])
def test_a_server_that_refuses_stops_nothing(status: int) -> None:
    asked = Asked(status).by(lambda native, log: native.clear_own(log))
    assert [each.event for each in asked.said] == ["executors-left"]
