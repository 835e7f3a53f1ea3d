"""The end of a script: what must be over before the supervisor hears of it, and whether it was a good end.

The interpreter ends in this order: the main thread; every other thread that is no daemon; exit handlers (``atexit``), the last
registered one first. ``Ended`` is sent by the handler that was registered before the script's first line, so it is the last to
run: by then nothing of the script's is left but daemon threads. A script that calls ``os._exit`` chooses to skip all that, and
``Ended`` is sent from there. One that would replace the process by another program (``os.exec…``) is refused: that program would
write without gate and fence, under the number of a driver that is believed to wait.

*Not* guaranteed: that the process ends. A thread or an exit handler that hangs keeps it, as it keeps plain Python; the
supervisor is told what it waits for.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from understudy.driver import uncaught
from understudy.driver.checkpoint_reporter import CheckpointReporter
from understudy.driver.error_text import first_line
from understudy.driver.fence_client import FenceClient
from understudy.driver.gate_client import GateClient
from understudy.driver.java import java_class
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_registry import QueryRegistry, failed_last
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.errors import LeadershipLost, ScriptProblem, UnderstudyError
from understudy.processes import is_exiting
from understudy.protocol.messages import Advice, Ended, Message, StillRunning

#: Exit code of a driver that lost the right to write.
LOST = 75

#: Seconds between two looks at what keeps a process whose script's main thread has ended.
_LOOK = 10.0

#: Seconds that a stop of Spark may take at the end of a script.
_STOP = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a script ended. ``code`` as the shell would see it; ``fatal``: starting the script again would change nothing."""

    code: int
    error: str = ""
    fatal: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Outcome:
        match error:
            case LeadershipLost():
                return cls(LOST, str(error))
            case UnderstudyError():
                return cls(error.exit_code, str(error), fatal=True)
            case _:
                return cls(1, first_line(error))


@dataclass(frozen=True, slots=True)
class _Watched:
    """What is asked when the script has ended. Nothing is, of a driver that failed before it had these."""

    registry: QueryRegistry
    gate_client: GateClient
    fence: FenceClient
    checkpoints: CheckpointReporter


class Ending:
    """``install`` before any code of the script, ``watch`` once the driver has its parts, ``main_ended`` after the script's last line."""

    def __init__(self, send: Callable[[Message], None], patches: PatchRegistry) -> None:
        self._send = send
        self._patches = patches
        self._exit_now = os._exit
        self._pid = os.getpid()  # a forked child inherits exit handlers, and must not speak for the driver
        self._watched: _Watched | None = None
        self._gateways: list[Any] = []
        self._outcome = Outcome(1, "the driver failed before the script's end")
        self._raised_in_thread: BaseException | None = None
        self._refused_in_child: UnderstudyError | None = None
        self._lock = threading.Lock()
        self._exiting = False
        self._sent = threading.Event()
        self._helper: threading.Thread | None = None  # an interpreter that ends may start none
        self._stops = threading.Event()
        self._stopped = threading.Event()

    def install(self) -> None:
        atexit.register(self._send_ended)
        self._patches.replace("os:_exit", self._exit_in_place_of)
        self._patches.replace("threading:excepthook", self._hook_in_place_of)
        for target in ("os:execv", "os:execve"):  # all the others of os call these
            self._patches.replace(target, self._exec_in_place_of)

    def watch(
        self, registry: QueryRegistry, gate_client: GateClient, fence: FenceClient, checkpoints: CheckpointReporter
    ) -> None:
        self._watched = _Watched(registry, gate_client, fence, checkpoints)

    def attached(self, gateway: Any) -> None:
        self._gateways.append(gateway)

    def main_ended(self, outcome: Outcome) -> None:
        """The script's main thread is through; others may go on, and start queries."""
        self._outcome = outcome
        atexit.register(self._threads_ended)
        self._start_helper()

    def end_with(self, error: BaseException) -> NoReturn:
        """End at once, from any thread: what must not be swallowed by the script."""
        sys.stderr.write(f"understudy: {error}\n")
        self._outcome = outcome = Outcome.of(error)
        self._send_ended()
        self._exit_now(outcome.code)

    def refused_in_child(self, error: UnderstudyError) -> None:
        """A process of the script met ``error``: what it was to do is missing, however the script takes its end."""
        self._refused_in_child = error

    def _start_helper(self) -> None:
        if self._helper is None:
            self._helper = threading.Thread(target=self._help, name="ending", daemon=True)
            self._helper.start()

    # The rest runs while the interpreter ends.

    def _threads_ended(self) -> None:
        """The first exit handler to run. A script that ends on a standby has its queries started before it ends, as everywhere."""
        if os.getpid() != self._pid:
            return
        self._wait_until_started()
        self._exiting = True

    def _wait_until_started(self) -> None:
        if self._outcome.code != 0 or self._watched is None or not self._watched.gate_client.asked:
            return
        try:
            self._watched.registry.wait_until_started()
        except BaseException as error:  # noqa: BLE001 - reported as if the script's last line had raised it
            if not isinstance(error, LeadershipLost):
                uncaught.report(error)
            self._outcome = Outcome.of(error)

    def _send_ended(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._sent.is_set():
                return
            self._sent.set()
        _flush()
        outcome = self._judged()
        if not outcome.fatal and self._watched is not None:
            # however the script took it, also one that swallowed it and ended with 0: its rows are missing, and would be again
            refused = self._watched.fence.refusal() or self._refused_in_child
            outcome = outcome if refused is None else Outcome.of(refused)
        if self._watched is not None:
            self._watched.checkpoints.report()
        asked = self._watched is not None and self._watched.gate_client.asked
        # Before Spark stops, which may take seconds: a replica that is told to stop meanwhile knows that nothing is to be done again.
        self._send(Ended(outcome.code, outcome.error, asked, outcome.fatal))
        if outcome.code == 0 and self._helper is not None:
            self._stops.set()
            self._stopped.wait(_STOP)

    def _judged(self) -> Outcome:
        """Exit code 0 is believed only of a script whose JVM lives and whose queries all ended well, or run."""
        if self._outcome.code != 0 or self._watched is None:
            return self._outcome
        if self._raised_in_thread is not None:
            return Outcome.of(self._raised_in_thread)
        if any(_ends(gateway) for gateway in self._gateways):
            return Outcome(1, "the script ended with exit code 0 after its JVM had died")
        try:
            failed = failures(self._watched.registry.queries())
        except Py4JNetworkError as error:
            return Outcome(1, f"the JVM does not say how the script's queries ended: {first_line(error)}")
        if failed:
            told = "; ".join(failed)
            return Outcome(
                1, f"the script ended with exit code 0, and the last end of a query was an exception: {told}"
            )
        return self._outcome

    def _help(self) -> None:
        self._report_what_runs()
        self._stops.wait()
        _stop_spark()
        self._stopped.set()

    def _report_what_runs(self) -> None:
        told = ""
        while not self._sent.wait(_LOOK):
            now = "its exit handlers (atexit)" if self._exiting else ", ".join(_threads())
            if now not in ("", told):
                told = now
                self._send(StillRunning(now))

    def _exit_in_place_of(self, stock: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
        def _exit(status: int) -> NoReturn:
            if os.getpid() == self._pid and not self._sent.is_set():
                code = status & 0xFF
                self._outcome = Outcome(code, "" if code == 0 else f"the script exited with code {code}")
                self._start_helper()
                self._threads_ended()
                self._send_ended()
            stock(status)

        return _exit

    def _exec_in_place_of(self, stock: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        def execute(path: Any, *rest: Any, **named: Any) -> NoReturn:
            if os.getpid() == self._pid:
                what = f"the script would replace its process by {path!s}, which no gate holds and no fence stops"
                remedy = (
                    "If it starts itself again for an environment variable, set that where understudy run is started;"
                    " start another program by subprocess"
                )
                self.end_with(ScriptProblem(what, where=f"os.{stock.__name__}", remedy=remedy))
            stock(path, *rest, **named)

        return execute

    def _hook_in_place_of(
        self, stock: Callable[[threading.ExceptHookArgs], Any]
    ) -> Callable[[threading.ExceptHookArgs], None]:
        def hook(raised: threading.ExceptHookArgs) -> None:
            match raised.exc_value:
                case LeadershipLost() | UnderstudyError() as error:
                    self._raised_in_thread = error
                case SystemExit(code=code) if code:
                    name = raised.thread.name if raised.thread is not None else "a thread"
                    self._send(Advice(f"sys.exit({code!r}) in {name} ended that thread only, as Python has it"))
                case _:
                    pass
            stock(raised)

        return hook


def failures(queries: Sequence[PendingQuery]) -> list[str]:
    """The queries whose last end was an exception, in words: of those that were started again the last start counts."""
    return [f"query {name}: {line}" for name, line in failed_last(queries).items()]


def _stop_spark() -> None:
    """What the JVM does by itself after a script that ends without ``spark.stop()``: listeners and the event log are told of the
    application's end, and executors that they may go. Ours ends with this process, at once.
    """
    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        with suppress(Exception):  # it ends one way or the other
            context.stop()


def _ends(gateway: Any) -> bool:
    """Whether the JVM behind ``gateway`` has died or is about to: Python sees its sockets close some time before."""
    if gateway.proc.poll() is not None or is_exiting(gateway.proc.pid):
        return True
    try:
        return bool(java_class(gateway.jvm, "org.apache.spark.util.ShutdownHookManager").inShutdown())
    except (Py4JError, OSError):  # a script may close the gateway; the kernel says that the JVM lives
        return is_exiting(gateway.proc.pid)


def _threads() -> list[str]:
    main = threading.main_thread()
    return [f"thread {each.name}" for each in threading.enumerate() if each is not main and not each.daemon]


def _flush() -> None:
    """Write out what is buffered. Output whose reader is gone is dropped: that costs no job its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # a script may have put anything there
                stream.flush()
        except Exception:  # noqa: BLE001
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1 if stream is sys.stdout else 2)
            os.close(nowhere)
