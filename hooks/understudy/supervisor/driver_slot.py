"""The one driver process of a replica: started, shown its gate, and reaped before another one takes its place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from understudy.errors import ProcessesRemain
from understudy.fencing.claim import NO_FORMER_LOCKS
from understudy.fencing.counters import CountersPage
from understudy.fencing.gate import GateWriter
from understudy.ha.cleanup import scratch_of
from understudy.protocol.counters import path_of as counters_of
from understudy.protocol.driver_spec import DriverSpec
from understudy.protocol.messages import Message
from understudy.supervisor import fence_logs
from understudy.supervisor.deadline_guard import DeadlineGuard
from understudy.supervisor.driver_process import DriverProcess
from understudy.supervisor.hosts import Host
from understudy.supervisor.native import Executors
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.workspace import Workspace

#: Seconds after which a driver that was killed, and still has processes, is given up: SIGKILL waits for what hangs in the kernel.
_DIES_WITHIN = 40.0
#: Seconds that a driver whose script has ended well may take to be gone, before it is killed like any other; less than every grace period.
_ENDS_WITHIN = 5.0


class DriverSlot:
    """``on_message`` gets every message of the driver, ``on_exit`` its exit status, both with the driver they are from; ``follow`` the
    page on which its fence counts. ``former_locks``: kinds of lock from which the job was moved, each with the highest epoch it granted.
    """

    def __init__(
        self,
        settings: RunSettings,
        host: Host,
        fence_jar: Path,
        guard: DeadlineGuard,
        *,
        on_message: Callable[[DriverProcess, Message], None],
        on_exit: Callable[[DriverProcess, int], None],
        follow: Callable[[CountersPage], None],
        former_locks: Callable[[], Mapping[str, int]] = lambda: NO_FORMER_LOCKS,
    ) -> None:
        self._settings = settings
        self._host = host
        self._fence_jar = fence_jar
        self._guard = guard
        self._parts = host.driver_parts
        self._on_message = on_message
        self._on_exit = on_exit
        self._follow = follow
        self._former_locks = former_locks
        self.workspaces = self._parts.workspaces(settings.home, host.java_options)
        self.process: DriverProcess | None = None
        self.calls_functions = True  # whether rehearsals of drivers to come may call functions of the script's
        self._remaining: ProcessesRemain | None = None
        self._dying: list[DriverProcess] = []

    def start(self, *, low_priority: bool) -> DriverProcess:
        """Start the script behind a closed gate. ``low_priority``: another replica leads; the kernel should favour it for CPU and
        memory. Raises ``OSError`` or another error if the machine lacks something.
        """
        assert self.process is None, "a replica has one driver at a time"
        executors = self._host.executors(self._settings.submit)
        workspace = self._parts.workspace(self.workspaces)
        try:
            self.process = self._started(workspace, executors, low_priority=low_priority)
        except BaseException:
            workspace.remove()  # or every start that fails would leave directories and descriptors behind
            raise
        self._guard.driver = self.process
        return self.process

    def _started(self, workspace: Workspace, executors: Executors, *, low_priority: bool) -> DriverProcess:
        gate = self._parts.gate(workspace.gate)
        spec = self._spec(gate, workspace, executors, low_priority=low_priority)
        try:
            self._follow(self._parts.counters(counters_of(gate.path)))
            return self._parts.process(spec, gate, workspace, self._host.alive, self._on_message, self._on_exit)
        except BaseException:
            gate.discard()
            raise

    def _spec(self, gate: GateWriter, workspace: Workspace, executors: Executors, *, low_priority: bool) -> DriverSpec:
        settings, holder = self._settings, self._host.holder
        return DriverSpec(
            holder=holder,
            cluster=settings.cluster,
            job=settings.job,
            lock_kind=settings.lock_kind,
            former_locks=dict(self._former_locks()),
            gate=str(gate.path),
            alive=str(self._host.alive.path),
            fence_jar=str(self._fence_jar),
            fence_log=str(fence_logs.path_of(settings.home, holder)),
            write_timeout=settings.timings.write_timeout,
            checkpoints=settings.checkpoint_base,
            scratch=f"{settings.storage.scratch.rstrip('/')}/{scratch_of(settings.cluster, holder)}".rstrip("/")
            if settings.storage.scratch
            else str(workspace.scratch),
            rehearsal=settings.rehearsal if executors.rehearses else replace(settings.rehearsal, mode="off"),
            spark=settings.spark,
            parent=os.getpid(),
            low_priority=low_priority,
            script=str(settings.script.resolve()),
            arguments=list(settings.arguments),
            submit=list(executors.submit),
            defaults=executors.defaults,
            settings=executors.settings,
            executors=executors.count,
            calls_functions=self.calls_functions,
        )

    async def come_to_its_end(self) -> None:
        """Wait for the process of a script that has ended well, before it would be killed because this replica is told to stop."""
        if self.process is not None:
            await self.process.come_to_its_end(_ENDS_WITHIN)

    async def reap(self) -> None:
        """Return when no process of the driver is left, nor of one whose reaping was broken off.

        Raises ``ProcessesRemain``, then and whenever asked again: a replica that went on renewing would keep the others from
        leading.
        """
        if self._remaining is not None:
            raise self._remaining
        process, self.process, self._guard.driver = self.process, None, None
        if process is not None:
            self._dying.append(process)
        for each in list(self._dying):
            try:
                async with asyncio.timeout(_DIES_WITHIN):
                    await each.terminate_and_reap()
            except TimeoutError:
                self._remaining = ProcessesRemain(
                    f"its processes were killed {_DIES_WITHIN:.0f} s ago, and some are still there",
                    where=f"driver {each.pid}",
                    remedy="A disk or file system of this machine hangs: see `ps -eo pid,stat,wchan,args`. Another replica leads "
                    "when the lease has run out",
                )
                raise self._remaining from None
            self._dying.remove(each)
