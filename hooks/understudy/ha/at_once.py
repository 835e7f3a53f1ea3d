"""Requests that do not depend on each other: a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")

#: A file is held in memory while it is copied.
_AT_ONCE = 8


async def for_each(function: Callable[[A], Awaitable[R]], arguments: Iterable[A]) -> list[R]:
    """What the calls return, in the order of ``arguments``. Raises what a call raised, once all have ended."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def call(argument: A) -> R:
        async with free:
            return await function(argument)

    results = await asyncio.gather(*(call(argument) for argument in arguments), return_exceptions=True)
    found: list[R] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return found
