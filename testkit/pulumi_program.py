"""A Pulumi program run without the engine, through the SDK's own mocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc


class Echo(mocks.Mocks):
    """Every resource comes out as it went in."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        return f"{args.name}_id", dict(args.inputs)

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]] | None]:
        del args
        return {}, None


def perform(program: Callable[[], None], monitor: mocks.MockMonitor) -> None:
    """Return when the program has ended and every request of it has been answered. What it raises comes out of here."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loops = [loop]

    def with_a_loop() -> None:
        """The SDK gives each of its threads a loop and never closes one; these can be closed."""
        loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(loops[-1])

    loop.set_default_executor(ThreadPoolExecutor(initializer=with_a_loop))
    try:
        pulumi.runtime.set_mocks(monitor.mocks, project="understudy", stack="test", preview=False, monitor=monitor)
        pulumi.runtime.test(program)()
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        for each in loops:
            each.close()


def plain(value: Any) -> Any:
    """What a request says, its secrets as they are."""
    if rpc.is_rpc_secret(value):
        return plain(rpc.unwrap_rpc_secret(value))
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value
