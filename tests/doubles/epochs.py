"""What is known of epochs outside a lock, for tests in which nothing is."""

from __future__ import annotations


async def nothing_granted() -> int:
    return 0
