"""A savepoint as a simulated driver takes it: files that are copied one after the other while batches are held; and when it is whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.checkpoint import COMMITS, OFFSETS
from understudy.ha.savepoints import MANIFEST, Savepoint, below
from understudy.protocol.messages import Save, Saved
from understudy.protocol.savepoint import SavedQuery

if TYPE_CHECKING:
    from tests.simulation.world import World

FILES = ("flights/offsets", "flights/commits")


async def save(world: World, root: str, asked: Save, let_go: Callable[[], None], tell: Callable[[Saved], None]) -> None:
    """Each file says where the checkpoint stood when it was copied. Now and then there is no space; and no batch in flight is copied, as in the JVM."""
    assert world.blobs is not None, "it is refused without a place"
    began = world.loop.time()
    place = f"savepoints/{asked.place.partition('/savepoints/')[2]}"
    standing = [world.checkpoint.last(log) for log in (OFFSETS, COMMITS)]
    if standing[0] != standing[1]:
        tell(Saved(asked.request, asked.number, f"batch {standing[0]} is not committed"))
        return
    for name in FILES:
        await asyncio.sleep(world.saves.uniform(0.0, 0.5))
        standing = [world.checkpoint.last(log) for log in (OFFSETS, COMMITS)]
        world.blobs.stored[f"{place}/{name}"] = json.dumps(standing).encode()
    copied = world.loop.time() - began
    if not asked.keep:
        let_go()
    await asyncio.sleep(world.saves.uniform(0.0, 1.0))
    if world.saves.random() < 0.1:
        for name in FILES:
            world.blobs.stored.pop(f"{place}/{name}", None)
        tell(Saved(asked.request, asked.number, "no space left"))
        return
    batch = standing[1]
    query = SavedQuery("flights", root, "parquet", "", batch, "flights", len(FILES), 2, "0f", "live")
    tell(Saved(asked.request, asked.number, "", "simulated", copied, copied, [query]))


def lacks(world: World, cluster: str, job: str, one: Savepoint) -> str:
    """What a savepoint that is called complete is without; empty if it is whole."""
    assert world.blobs is not None
    place, stored = below(cluster, job, one.directory), world.blobs.stored
    missing = [name for name in (MANIFEST, *FILES) if f"{place}/{name}" not in stored]
    if missing:
        return f"without {', '.join(missing)}"
    stood = {tuple(json.loads(stored[f"{place}/{name}"])) for name in FILES}
    if len(stood) > 1 or any(offsets != commits for offsets, commits in stood):
        return f"of more than one place: {sorted(stood)}"
    return ""
