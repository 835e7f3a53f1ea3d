"""The one driver of a replica: started, shown its gate, and buried before another one takes its seat."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from understudy.clock import Instant, instant
from understudy.fencing.gate import State, View
from understudy.fencing.token import Token
from understudy.messages import DriverSpec, Granted, Message
from understudy.settings import Timings
from understudy.supervisor.child import Driver, may_lower_priority, new_gate
from understudy.supervisor.places import Place
from understudy.supervisor.settings import RunSettings


def open_view(token: Token, sent_at: float, timings: Timings) -> View:
    """Deadlines count from ``sent_at``, when the last confirmed renewal was *sent* (s on CLOCK_BOOTTIME), on both clocks."""
    now = instant()
    passed = now.boottime_ns - int(sent_at * 1e9)
    sent = Instant(now.boottime_ns - passed, now.monotonic_ns - passed)
    close = sent.plus(timings.renew)
    return View(State.OPEN, token, close, sent.plus(timings.kill_after), close.plus(timings.grace))


class Seat:
    """``heard`` gets every message of the driver, ``exited`` its exit status, both with the driver they are from."""

    def __init__(
        self,
        settings: RunSettings,
        place: Place,
        fence_jar: Path,
        heard: Callable[[Driver, Message], None],
        exited: Callable[[Driver, int], None],
    ) -> None:
        self._settings = settings
        self._place = place
        self._holder = place.holder
        self._fence_jar = fence_jar
        self._heard = heard
        self._exited = exited
        self._scratch = settings.home / "scratch" / self._holder
        self.driver: Driver | None = None

    def start(self, *, idle: bool) -> None:
        """Start the script. ``idle``: at low priority, because somebody else leads."""
        settings, alive = self._settings, self._place.alive
        executors = self._place.executors(settings.submit)
        gate = new_gate(self._holder)
        spec = DriverSpec(
            holder=self._holder,
            cluster=settings.cluster,
            job=settings.job,
            lock_kind=settings.lock_kind,
            gate=str(gate.path),
            alive=str(alive.path),
            fence_jar=str(self._fence_jar),
            fence_log=str(settings.home / "log" / f"fence-{self._holder}.jsonl"),
            write_timeout=settings.timings.write_timeout,
            checkpoints=settings.checkpoint_base,
            scratch=f"{settings.scratch.rstrip('/')}/{self._holder}" if settings.scratch else str(self._scratch),
            rehearse=settings.rehearse if executors.rehearses else "off",
            rounds=settings.rehearse_rounds,
            every=settings.rehearse_every,
            parent=os.getpid(),
            idle=idle and may_lower_priority(),
            script=str(settings.script.resolve()),
            arguments=list(settings.arguments),
            submit=list(executors.submit),
            defaults=executors.defaults,
            settings=executors.settings,
            executors=executors.count,
        )
        self.driver = Driver(spec, gate, alive, self._heard, self._exited)

    def open(self, token: Token, sent_at: float) -> None:
        """Open the gate under ``token`` and tell the driver, which takes over."""
        if self.driver is not None:
            self.driver.show(open_view(token, sent_at, self._settings.timings))
            self.driver.say(Granted(int(token)))

    def extend(self, token: Token, sent_at: float) -> None:
        """New deadlines after a renewal; a gate that is not open stays as it is."""
        if self.driver is not None and self.driver.gate.view.state is State.OPEN:
            self.driver.show(open_view(token, sent_at, self._settings.timings))

    def revoke(self, token: Token, reason: str) -> None:
        """Nothing passes any more, and SIGKILL; ``bury`` makes sure of it."""
        if self.driver is not None:
            self.driver.show(View(State.REVOKED, token))
            self.driver.kill_now(reason)

    async def clear(self) -> None:
        """Return when no process of the driver is left, and its scratch is gone."""
        driver, self.driver = self.driver, None
        if driver is not None:
            await driver.bury()
        await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
