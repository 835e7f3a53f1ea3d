"""A process of ``test_machines.py``: contends for a lock in a bucket, and says what becomes of it, one line of JSON each.

``granted`` with its epoch, ``lost``, and ``closed`` with the deadline that its gate would have had; ``at``, when it said so, and the deadline
in seconds on CLOCK_BOOTTIME.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys

from testkit import s3
from understudy.clock import BootClock
from understudy.config.timings import Timings
from understudy.documents.s3 import S3DocumentStore
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.events import Log
from understudy.s3.settings import S3Settings

TIMINGS = Timings(lease=3.0, renew=1.8, retry=0.2, request=0.8, kill=0.1, write_timeout=1.0)


class Contender:
    def __init__(self, host: str, port: int, prefix: str, holder: str) -> None:
        settings = S3Settings(f"http://{host}:{port}", "us-east-1", path_style=True, key=s3.KEY, secret=s3.SECRET)
        store = S3DocumentStore(s3.BUCKET, prefix, settings, TIMINGS.request)
        self.clock = BootClock()
        log = Log(stream=io.StringIO())
        self.elector = Elector(
            store, "flights-lock", holder, TIMINGS, self.clock, self, log, min_epoch=self.none_known, lock_kind="s3"
        )

    async def none_known(self) -> int:
        return 0

    def granted(self, grant: Grant) -> None:
        self.say("granted", epoch=grant.epoch)

    def renewed(self, sent_at: float) -> None:
        pass

    def lost(self, reason: str) -> None:
        self.say("lost", reason=reason)
        self.elector.ready(True)

    async def run(self) -> None:
        self.elector.ready(True)
        running = asyncio.ensure_future(self.elector.run())
        open_until: float | None = None
        while not running.done():
            deadline = self.elector.view.gate_deadline
            is_open = deadline is not None and self.clock.now() < deadline
            if open_until is not None and not is_open:
                self.say("closed", deadline=open_until)
            open_until = deadline if is_open else None
            await asyncio.sleep(0.005)

    def say(self, what: str, **facts: object) -> None:
        sys.stdout.write(json.dumps({"what": what, "at": self.clock.now(), **facts}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    at, port, prefix, holder = sys.argv[1:]
    asyncio.run(Contender(at, int(port), prefix, holder).run())
