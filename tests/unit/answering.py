"""A server that answers as a test wants, and a client of the API server that asks it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from kubernetes.aio import client

from understudy.documents.api_server import ApiServer, _MountedToken

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def kubeconfig(directory: Path, address: str) -> Path:
    """A file with one context, ``test``, for the API server at ``address``; its namespace is ``jobs``."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "jobs"}}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server whose every answer is ``handler``'s; its URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address,) = runner.addresses
    try:
        yield f"http://127.0.0.1:{address[1]}"
    finally:
        await runner.cleanup()


async def served(
    handler: Handler,
    ask: Callable[[ApiServer], Awaitable[object]],
    *,
    token: Path | None = None,
    within: float = 60.0,
) -> object:
    """What ``ask`` came to at a server whose every answer is ``handler``'s. ``within``: seconds that a request may take."""
    async with serving(handler) as url:
        configuration = client.Configuration(host=url)
        mounted = None if token is None else _MountedToken(token)
        async with ApiServer(configuration, "tests", within, mounted) as api:
            return await ask(api)
