"""A bare elector of ours, for tests: ``python -m e2e.harness.elector NAMESPACE NAME ID LOCK``. Says when it leads and when it lost."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from understudy.clock import BootClock
from understudy.config.timings import PROFILES
from understudy.documents.api_server import ApiServer
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.events import Log
from understudy.services.kubernetes import lock_store

TIMINGS = PROFILES["fast"]


def say(what: str) -> None:
    sys.stdout.write(f"{time.time_ns() // 1000} {what}\n")
    sys.stdout.flush()


class Candidate:
    """Leads whenever it may; has no driver, so it is always ready and has nothing to reap."""

    def granted(self, grant: Grant) -> None:
        say(f"leads {grant.epoch}")

    def renewed(self, sent_at: float) -> None:
        del sent_at

    def lost(self, reason: str) -> None:
        say(f"stopped {reason}")


async def nothing_granted() -> int:
    return 0


async def main(namespace: str, name: str, holder: str, lock: str) -> None:
    async with await ApiServer.connect(TIMINGS.request, namespace) as api:
        store = lock_store(api, lock)
        elector = Elector(
            store,
            name,
            holder,
            TIMINGS,
            BootClock(),
            Candidate(),
            Log({}),
            min_epoch=nothing_granted,
            generation="1",
            lock_kind=lock,
        )
        running = asyncio.create_task(elector.run())
        elector.ready(True)
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        await told.wait()
        elector.stop()
        if await elector.release(None):
            say("stopped released")
        running.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
