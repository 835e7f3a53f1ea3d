"""The ways a leader goes: SIGKILL to one or all of its processes, SIGSTOP past its lease, SIGTERM."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from testkit import observer, procs

KINDS = ("jvm", "driver", "supervisor", "tree", "frozen", "sigterm")


class NotThere(Exception):
    """The process that should be killed does not exist (any more)."""


def _signal(processes: Iterable[procs.Process], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def kill(kind: str, victim: procs.ReplicaProcesses) -> float:
    """Do it, and return the time just before the first signal (s since 1970)."""
    at = time.time()
    match kind:
        case "jvm":
            if victim.jvm is None:
                raise NotThere("no JVM")
            os.kill(victim.jvm.pid, signal.SIGKILL)
        case "driver":
            if victim.driver is None:
                raise NotThere("no Python driver")
            os.kill(victim.driver.pid, signal.SIGKILL)
        case "supervisor":
            os.kill(victim.supervisor.pid, signal.SIGKILL)
        case "script":  # a shell loop passes no signal on: a Deployment's SIGTERM goes to the script itself
            _signal((found for found in victim.others if "flights.py" in found.command), signal.SIGTERM)
        case "tree":
            _signal(victim.all, signal.SIGKILL)
        case "sigterm":
            os.kill(victim.supervisor.pid, signal.SIGTERM)
        case "frozen":
            freeze(victim)
        case _:
            raise ValueError(kind)
    return at


def freeze(victim: procs.ReplicaProcesses) -> None:
    """SIGSTOP to every process of the replica, the JVM first: it is the one with a batch in flight."""
    _signal(victim.all, signal.SIGSTOP)


def freeze_in_flight(
    find: Callable[[], procs.ReplicaProcesses | None], checkpoint: Path, database: Path, timeout_s: float = 120.0
) -> tuple[procs.ReplicaProcesses, float, int]:
    """Freeze the leader while ``checkpoint`` has a batch in ``offsets`` that is not in ``commits``, and writes its state.

    Its tasks must run, or nothing of it would ever meet the fence: Spark asks the sink's log for the batch *before* it runs
    it, finds it there (by the new leader), and gives up. A task that is already running does not ask.

    Returns the frozen replica, the time of the freeze and the batch. Two moments that would show less are let go: user code
    running (the thawed JVM halts before it gets to write, which proves the halting thread and not the fence), and a
    transaction open in SQLite (its file lock would stop the *new* leader for as long as the process is frozen; a database
    server would time it out).
    """
    begun = time.monotonic()
    while time.monotonic() - begun < timeout_s:
        victim = find()
        if victim is None or victim.jvm is None:
            time.sleep(0.2)
            continue
        batch = _next_in_flight(checkpoint, within_s=3.0)
        if batch is None:
            continue
        at = time.time()
        freeze(victim)
        still = observer.in_flight(checkpoint) == batch and observer.had_input(checkpoint, batch)
        still = still and writes_state(checkpoint, batch)
        if still and procs.user_code_running(victim.jvm) == 0 and not procs.holds_lock(database):
            return victim, at, batch
        thaw(victim)  # a few milliseconds: no renewal is missed
        time.sleep(0.05)
    raise NotThere(f"no batch in flight in {checkpoint} within {timeout_s:.0f} s")


def _next_in_flight(checkpoint: Path, within_s: float) -> int | None:
    """Wait until a task of the next batch writes its state; None when no batch got that far in time."""
    batch = observer.last_entry(checkpoint / "offsets") + 1
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if writes_state(checkpoint, batch):
            return batch
        time.sleep(0.002)
    return None


def writes_state(checkpoint: Path, batch: int) -> bool:
    """Whether a delta of the state after ``batch`` is being written: under a hidden name, until it is whole.

    Beside it by Spark itself, and by the fence where the next claim deletes it.
    """
    places = ("state/*/*", "_understudy/staging-*")
    return any(path for place in places for path in checkpoint.glob(f"{place}/.{batch + 1}.delta.*"))


def thaw(victim: procs.ReplicaProcesses) -> None:
    """SIGCONT to every process of the replica."""
    _signal(victim.all, signal.SIGCONT)


def thaw_jvm_first(victim: procs.ReplicaProcesses, refused: Callable[[], bool], patience_s: float = 1.0) -> bool:
    """Thaw the JVM, and the rest once a write of it was refused (True) or after ``patience_s`` (False).

    Why not all at once: the supervisor would notice in its first millisecond that it lost, and kill the JVM before that
    could try to write. A stale leader that survives is the hard case, and real: on a machine that wakes from suspend,
    nothing says which process runs first.
    """
    if victim.jvm is not None:
        _signal([victim.jvm], signal.SIGCONT)
    deadline = time.monotonic() + patience_s
    seen = False
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
        seen = refused()
    _signal((process for process in victim.all if process != victim.jvm), signal.SIGCONT)
    return seen
