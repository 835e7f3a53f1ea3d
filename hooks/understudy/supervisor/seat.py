"""The one driver of a replica: started, shown its gate, and buried before another one takes its seat."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from understudy.clock import Instant, instant
from understudy.config.timings import Timings
from understudy.election.facts import Grant
from understudy.errors import ProcessesRemain
from understudy.fencing.counters import CountersPage
from understudy.protocol.counters import path_of as counters_of
from understudy.protocol.driver_spec import DriverSpec
from understudy.protocol.gate import State, View
from understudy.protocol.messages import Granted, Message
from understudy.protocol.token import Token
from understudy.supervisor import fence_logs
from understudy.supervisor.driver_process import DriverProcess
from understudy.supervisor.native import Executors
from understudy.supervisor.places import Place
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.workspace import Workspace

#: Seconds after which a driver that was killed, and still has processes, is given up: SIGKILL waits for what hangs in the kernel.
_DIES_WITHIN = 40.0


@dataclass(slots=True)
class Term:
    """What this replica leads under. The control loop writes it, all but ``sent_at`` and ``grant``, which the elector's calls
    write at once: a renewal and a loss do not wait for the loop. A grant is current while ``grant`` is that very object.
    """

    token: Token  # of the last start of a driver that was to lead
    grant: Grant | None = None  # the one the elector holds now, whatever the loop is doing
    epoch: int | None = None  # of the grant; None while we do not lead
    recorded: Mapping[str, int] = field(default_factory=dict)  # roots of the job, each with the token of its last claim
    sent_at: float = 0.0  # when the last confirmed renewal was sent, s on CLOCK_BOOTTIME


def open_view(token: Token, sent_at: float, timings: Timings) -> View:
    """Deadlines count from ``sent_at``, when the last confirmed renewal was *sent* (s on CLOCK_BOOTTIME), on both clocks."""
    now = instant()
    passed = now.boottime_ns - int(sent_at * 1e9)
    sent = Instant(now.boottime_ns - passed, now.monotonic_ns - passed)
    # guard: gate-closes-within-the-lease
    close = sent.plus(timings.renew)
    # guard: user-code-is-killed
    return View(State.OPEN, token, close, sent.plus(timings.kill_after), close.plus(timings.grace))


class Seat:
    """``heard`` gets every message of the driver, ``exited`` its exit status, both with the driver they are from; ``follow`` what its
    fence counts.
    """

    def __init__(
        self,
        settings: RunSettings,
        place: Place,
        fence_jar: Path,
        term: Term,
        heard: Callable[[DriverProcess, Message], None],
        exited: Callable[[DriverProcess, int], None],
        follow: Callable[[CountersPage], None],
    ) -> None:
        self._settings = settings
        self._place = place
        self._holder = place.holder
        self._fence_jar = fence_jar
        self._term = term
        self._heard = heard
        self._exited = exited
        self._follow = follow
        self._parts = place.driver_parts
        self.workspaces = self._parts.workspaces(settings.home, place.java_options)
        self.driver: DriverProcess | None = None
        self._remaining: ProcessesRemain | None = None
        self._dying: list[DriverProcess] = []

    def start(self, *, idle: bool) -> None:
        """Start a standby's script. ``idle``: another replica leads; the kernel should favour it for CPU and memory."""
        self._start(idle=idle)

    def start_leading(self, grant: Grant) -> bool:
        """Start the script behind a gate that is open; not at all, and False, when ``grant`` is no longer the current one."""
        # guard: driver-starts-under-the-current-grant
        if self._term.grant is not grant:
            return False
        self._start(idle=False)
        return self.open(grant)

    def _start(self, *, idle: bool) -> None:
        assert self.driver is None, "a seat has one driver"
        executors = self._place.executors(self._settings.submit)
        workspace = self._parts.workspace(self.workspaces)
        try:
            self.driver = self._started(workspace, executors, idle=idle)
        except BaseException:
            workspace.remove()  # or every start that fails would leave directories and descriptors behind
            raise

    def _started(self, workspace: Workspace, executors: Executors, *, idle: bool) -> DriverProcess:
        settings, alive = self._settings, self._place.alive
        gate = self._parts.gate(workspace.gate)
        spec = DriverSpec(
            holder=self._holder,
            cluster=settings.cluster,
            job=settings.job,
            lock_kind=settings.lock_kind,
            gate=str(gate.path),
            alive=str(alive.path),
            fence_jar=str(self._fence_jar),
            fence_log=str(fence_logs.path_of(settings.home, self._holder)),
            write_timeout=settings.timings.write_timeout,
            checkpoints=settings.checkpoint_base,
            scratch=f"{settings.scratch.rstrip('/')}/{self._holder}" if settings.scratch else str(workspace.scratch),
            rehearse=settings.rehearse if executors.rehearses else "off",
            rounds=settings.rehearse_rounds,
            every=settings.rehearse_every,
            rows_per_hour=settings.rehearse_rows,
            bytes_per_hour=settings.rehearse_bytes,
            parent=os.getpid(),
            low_priority=idle,
            tune=settings.tune,
            script=str(settings.script.resolve()),
            arguments=list(settings.arguments),
            submit=list(executors.submit),
            defaults=executors.defaults,
            settings=executors.settings,
            executors=executors.count,
        )
        try:
            self._follow(self._parts.counters(counters_of(gate.path)))
            return self._parts.process(spec, gate, workspace, alive, self._heard, self._exited)
        except BaseException:
            gate.discard()
            raise

    def open(self, grant: Grant) -> bool:
        """Open the gate under the term's token and tell the driver, which takes over.

        False, and nothing is opened, when ``grant`` is no longer the current one: it was lost or released since it was looked at.
        """
        # guard: gate-opens-under-the-current-grant
        if self._term.grant is not grant or self.driver is None:
            return False
        self.driver.show(self._open_view())
        self.driver.say(Granted(int(self._term.token), dict(self._term.recorded)))
        return True

    def extend(self) -> None:
        """New deadlines, or a new token; in other states than open the gate stays as it is.

        A gate that was closed for a script that ends in its own way stays closed, and has deadlines: a JVM halts itself at them.
        """
        if self.driver is None:
            return
        if (state := self.driver.gate.view.state) in {State.OPEN, State.CLOSED}:
            self.driver.show(replace(self._open_view(), state=state))

    def revoke(self, reason: str) -> None:
        """Nothing passes any more, and SIGKILL; ``bury`` makes sure of it."""
        if self.driver is not None:
            self.driver.show(View(State.REVOKED, self._term.token))
            self.driver.kill_now(reason)

    async def clear(self) -> None:
        """Return when no process of the driver is left, nor of one whose burial was broken off.

        Raises ``ProcessesRemain``, then and whenever asked again: whoever goes on renewing would keep everybody from leading.
        """
        if self._remaining is not None:
            raise self._remaining
        driver, self.driver = self.driver, None
        if driver is not None:
            self._dying.append(driver)
        for each in list(self._dying):
            try:
                async with asyncio.timeout(_DIES_WITHIN):
                    await each.bury()
            except TimeoutError:
                self._remaining = ProcessesRemain(
                    f"its processes were killed {_DIES_WITHIN:.0f} s ago, and some are still there",
                    where=f"driver {each.pid}",
                    remedy="A disk or file system of this machine hangs: see `ps -eo pid,stat,wchan,args`. Another replica leads "
                    "when the lease has run out",
                )
                raise self._remaining from None
            self._dying.remove(each)

    def _open_view(self) -> View:
        return open_view(self._term.token, self._term.sent_at, self._settings.timings)
