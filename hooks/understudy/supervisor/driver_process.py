"""One driver: its process and JVM, its gate, its channel. Made for one start, never reused."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from understudy.errors import UnderstudyError
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateWriter
from understudy.processes import Alive, catches, kill_all, may_lower_priority, members, oom_kills, reset_oom_score
from understudy.protocol.activity import path_of as activity_of
from understudy.protocol.driver_spec import CHANNEL_VARIABLE, HOLDER_VARIABLE, SPEC_VARIABLE, DriverSpec
from understudy.protocol.gate import State, View
from understudy.protocol.messages import LONGEST_LINE, Attached, Ended, Message, Revoked, decode, encode
from understudy.supervisor.kill_timer import KillTimer
from understudy.supervisor.workspace import Workspace

#: Seconds killing may take before we say so; a process in uninterruptible sleep takes as long as it takes.
_KILL_WITHIN = 30.0
#: Seconds until they are looked for again where they could not be.
_LOOK_AGAIN = 0.1


#: ``-P``: files in the working directory cannot replace modules that the interpreter and this package import.
COMMAND = (sys.executable, "-P", "-m", "understudy.driver")


def like_submit(environ: Mapping[str, str]) -> dict[str, str]:
    """What spark-submit sets for a script: ``hash()`` is the same in every replica, and nothing printed is lost in a buffer.

    conf/spark-env.sh has been read before, and may have set another seed.
    """
    return {"PYTHONHASHSEED": "0", **environ, "PYTHONUNBUFFERED": "YES"}


class DriverProcess:
    """``on_message`` gets every message, ``on_exit`` the exit code once, when the process or its JVM is gone."""

    def __init__(
        self,
        spec: DriverSpec,
        gate: GateWriter,
        workspace: Workspace,
        alive: Alive,
        on_message: Callable[[DriverProcess, Message], None],
        on_exit: Callable[[DriverProcess, int], None],
    ) -> None:
        self.spec = spec
        self.gate = gate
        self.ended: Ended | None = None
        self._told_to_end = False
        self._gone = asyncio.Event()
        self._workspace = workspace
        self._on_message = on_message
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._low, self._expendable = spec.low_priority and may_lower_priority(), spec.low_priority
        self._oom_kills = oom_kills()
        self._activity = Activity(activity_of(gate.path), create=True)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._socket = ours
        self._unread = b""
        environment = {
            **like_submit(os.environ),
            **workspace.environment,
            SPEC_VARIABLE: spec.encode(),
            CHANNEL_VARIABLE: f"{theirs.fileno()},{alive.descriptor}",
            HOLDER_VARIABLE: spec.holder,
        }
        self.killed_because = ""
        self.past_deadline = False
        self._watched: list[int] = []
        try:
            # From the main thread: the kernel counts the parent that PR_SET_PDEATHSIG watches by thread.
            self._process = subprocess.Popen(
                COMMAND,
                env=environment,
                pass_fds=(theirs.fileno(), alive.descriptor),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        try:
            self._watched.append(os.pidfd_open(self.pid))
            self._loop.add_reader(self._watched[0], self._driver_gone)
            self._loop.add_reader(self._socket, self._readable)
            self.kill_timer = KillTimer(gate, self._activity, self._kill_at_deadline)
        except BaseException:  # a process without its watch and its timer must not be
            self._process.kill()
            self._process.wait()
            self._stop_watching()
            raise

    def send(self, message: Message) -> None:
        line = encode(message)
        try:
            heard = self._socket.send(line) == len(line)
        except BlockingIOError:
            heard = False
        except OSError:
            return  # a dead driver hears nothing; its exit is reported elsewhere
        if not heard:  # hundreds of messages are waiting, and half a line would be worse than none
            self.kill_now("the driver does not read what it is told")

    def show(self, view: View) -> None:
        self.gate.publish(view)

    async def end_by_handler(self, within: float) -> bool:
        """Let the script's own handler of SIGTERM run, for ``within`` seconds; at once False where it has installed none.

        The gate is closed first and the script hears that it stays so: what the handler sets off waits for nothing, and writes
        nothing that the gate holds. The signal goes before that word, so that the script's thread meets its handler and not
        ``LeadershipLost``.
        """
        if not catches(self.pid, signal.SIGTERM):
            return False
        self._told_to_end = True
        if self.gate.view.state is State.OPEN:
            self.show(replace(self.gate.view, state=State.CLOSED))
        self._process.send_signal(signal.SIGTERM)
        self.send(Revoked("this replica was told to stop"))
        await self._wait_until_gone(within)
        return True

    async def come_to_its_end(self, within: float) -> None:
        """Wait for the process of a script that has ended well, for ``within`` seconds at most; others are not waited for.

        A driver that is killed after its last word has not completed, and a successor would do again what it has done.
        """
        if self.ended is not None and self.ended.code == 0:
            await self._wait_until_gone(within)

    async def _wait_until_gone(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._gone.wait()

    def kill_now(self, reason: str) -> None:
        """SIGKILL what can be reached without a look around; ``terminate_and_reap`` makes sure of the rest. May be called from any thread."""
        self.killed_because = self.killed_because or reason
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, 9)

    async def terminate_and_reap(self) -> None:
        """Return when every process of the session is gone, however long that takes. Its workspace is removed later."""
        self.show(View(State.REVOKED, self.gate.view.token))
        while not await asyncio.to_thread(self._kill_session):
            with suppress(OSError):
                sys.stderr.write(f"understudy: processes of driver {self.pid} do not die\n")
        await asyncio.to_thread(self._process.wait)
        self._close()

    @property
    def memory_was_short(self) -> bool:
        """Whether, since it was started, the kernel has killed something on this machine for want of memory."""
        return oom_kills() > self._oom_kills

    def lift_priority(self) -> None:
        """Back to ordinary priority, every thread of every process: Linux keeps niceness by thread."""
        if not self._low:
            return
        self._low = False
        for _ in range(2):  # a second time for threads that were being made meanwhile
            for pid in members(self.pid, self.spec.holder):
                with suppress(OSError):
                    for thread in os.listdir(f"/proc/{pid}/task"):
                        with suppress(OSError):
                            os.setpriority(os.PRIO_PROCESS, int(thread), 0)

    def take_the_lead(self) -> None:
        """Give the driver ordinary CPU priority and an ordinary OOM score: it leads from now on."""
        self.lift_priority()
        if self._expendable:
            self._expendable = False
            for _ in range(2):  # as above
                for pid in members(self.pid, self.spec.holder):
                    reset_oom_score(pid)

    def _kill_at_deadline(self, reason: str) -> None:
        self.past_deadline = True
        self.kill_now(reason)
        while not self._kill_session():
            pass

    def _kill_session(self) -> bool:
        try:
            return kill_all(self.pid, self.spec.holder, within=_KILL_WITHIN)
        except OSError:  # no descriptor is free to look for them: try again
            time.sleep(_LOOK_AGAIN)
            return False

    def _readable(self) -> bool:
        """Whether there was something, and may be more."""
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._socket)
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > LONGEST_LINE:
            self._unread = b""
            self._loop.remove_reader(self._socket)
            self.kill_now(f"the driver says a line of more than {LONGEST_LINE} bytes")
            return False
        for line in lines:
            try:
                message = decode(line)
            except UnderstudyError as error:
                self.kill_now(str(error))
                return False
            if isinstance(message, Attached):
                self._watch_jvm(message.jvm)
            if isinstance(message, Ended):
                self.ended = message
            self._on_message(self, message)
        return True

    def _watch_jvm(self, pid: int) -> None:
        """A JVM's death is seen here, not only in Python: user code may hold the interpreter's lock."""
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            self._watched.append(descriptor)
            self._loop.add_reader(descriptor, self._jvm_gone, descriptor)

    def _jvm_gone(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        if self.ended is None and not self._told_to_end:
            self.kill_now("the JVM died")

    def _driver_gone(self) -> None:
        self._loop.remove_reader(self._watched[0])
        self._readable_rest()
        self._gone.set()
        self._on_exit(self, self._process.wait())

    def _readable_rest(self) -> None:
        """Last words may still be in the socket, behind many others."""
        while self._readable():
            pass

    def _close(self) -> None:
        self.kill_timer.stop()
        self._stop_watching()
        self.gate.discard()
        # Gigabytes, perhaps; a takeover does not wait for them.
        self._loop.run_in_executor(None, self._workspace.remove)

    def _stop_watching(self) -> None:
        for descriptor in self._watched:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()
        self._loop.remove_reader(self._socket)
        self._socket.close()
