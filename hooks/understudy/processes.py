"""Linux processes: dying together, finding every member of a replica, and proof that all of them are gone.

A replica is a supervisor, its Python driver, a JVM and Python workers. *Evidence* of its death means that every process that
can write is dead: the JVM outlives a SIGKILLed parent by more than half a second, time enough to write. So all of them hold a
shared flock on one file, which the kernel frees when the last one is gone, however it went.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

from understudy.protocol.driver_spec import HOLDER_VARIABLE

_PR_SET_PDEATHSIG = 1
_PF_EXITING = 0x4


def die_with_parent() -> None:
    """Ask the kernel to SIGKILL this process when the *thread* that spawned it ends; survives execve.

    For that reason callers spawn from a thread that lasts (``understudy.launcher``). A parent that is already gone goes
    unnoticed here: the caller compares ``os.getppid()`` with the parent that it expects.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def is_exiting(pid: int) -> bool:
    """Whether a process has ended or has begun to. Its files are closed a moment before its parent can reap it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] in "ZX" or bool(int(fields[6]) & _PF_EXITING)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def time_namespace() -> str:
    """Clocks of two processes can be compared only if this is the same for both."""
    try:
        return os.readlink("/proc/self/ns/time")
    except OSError:  # a kernel without time namespaces has one time
        return ""


def may_lower_priority() -> bool:
    """Whether a process whose priority we lower can be raised again: otherwise it would lead at low priority."""
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20


def raise_oom_score(points: int) -> None:
    """Raises this process's OOM score by ``points`` (0–1000). Children that it starts from then on inherit it."""
    own = Path("/proc/self/oom_score_adj")
    with suppress(OSError):  # this kernel does not say, or the score is at its maximum
        own.write_text(str(min(1000, int(own.read_text()) + points)))


def reset_oom_score(pid: int) -> None:
    """Sets the OOM score of ``pid`` to this process's own. The kernel allows that down to what a privileged process has set."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(Path("/proc/self/oom_score_adj").read_text())


def oom_kills() -> int:
    """How many processes of this machine, containers included, the kernel has killed for want of memory; 0 where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether this process has a handler of its own for a signal: neither the default nor to ignore it. False if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, mask = line.partition(":")
            if name == "SigCgt":
                return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def started_at(pid: int) -> int | None:
    """When a living process began, in ticks since the boot: with its pid a name that is used once. ``None`` for a dead one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if _dead(fields) else int(fields[19])


def _dead(stat: list[bytes]) -> bool:
    """By what follows the name in ``/proc/<pid>/stat``. A process whose first thread has ended is a zombie there while others run."""
    return stat[0] in (b"Z", b"X") and int(stat[17]) <= 1


def members(session: int | None, holder: str) -> list[int]:
    """Processes of a replica's driver: its session's, and any that carry the holder's mark in their environment.

    ``None`` for a session that is not known. Another user's processes show no environment, and are found by their session only.

    Python workers leave the process group but stay in the session; a user's daemonized child leaves both and keeps its
    environment. A process that cleared its environment after leaving the session is not found.
    """
    mark = f"{HOLDER_VARIABLE}={holder}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or (pid := int(entry.name)) == os.getpid():
            continue
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if _dead(fields):
                continue
            if int(fields[3]) == session or mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def kill_all(session: int, holder: str, *, within: float) -> bool:
    """SIGKILL every member, again and again until none is left or ``within`` seconds are over. True when none is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)  # the driver and its JVM at once, before any scan
    give_up = time.monotonic() + within
    while True:
        alive = members(session, holder)
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not alive:
            return True
        if time.monotonic() >= give_up:
            return False
        time.sleep(0.005)


def kill_orphans(holder: str) -> int:
    """SIGKILL, once, every process with the mark of a holder whose supervisor is known to be dead; return the number.

    The driver and its JVM die with the supervisor. Processes that the script has forked do not, and would write on
    under a new leader.
    """
    found = members(None, holder)
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


class Alive:
    """A replica's own proof of life: a shared flock on ``path``, inherited by its children.

    A second lock, which nothing inherits, is the supervisor's alone: free while the first is held, it tells that the supervisor
    is dead and children are left.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        # First: a process that finds the proof of life may look at whether this one is locked.
        self._own = os.open(supervisor_lock(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._own, fcntl.LOCK_EX)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.set_inheritable(self.descriptor, True)
        fcntl.flock(self.descriptor, fcntl.LOCK_SH)
        self.inode = os.fstat(self.descriptor).st_ino
        os.write(self.descriptor, boot_id().encode())

    def leave(self) -> None:
        self.path.unlink(missing_ok=True)
        supervisor_lock(self.path).unlink(missing_ok=True)
        os.close(self.descriptor)
        os.close(self._own)


def supervisor_lock(path: Path) -> Path:
    """What the supervisor alone holds of the replica whose proof of life is at ``path``."""
    return path.with_name(path.name + ".supervisor")


def supervisor_died(path: Path) -> bool:
    """Block until the supervisor of that replica has ended, however. False where that cannot be known: it left in order, or it is
    of an older release.
    """
    try:
        descriptor = os.open(supervisor_lock(path), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return supervisor_lock(path).exists()
    finally:
        os.close(descriptor)


def tombstone(path: Path) -> Path:
    """Where the proof of life at ``path`` is kept once it is over."""
    return path.with_name(path.name + ".dead")


def all_gone(path: Path, inode: int, boot: str, *, wait: bool = False) -> bool:
    """Whether every process that held the flock is gone: evidence. With ``wait`` it blocks until they are.

    Nothing is concluded from a missing file or from another inode. A different boot id is evidence by itself: these are local
    file systems, so the machine has restarted. The first who learns of a death moves the file to its tombstone: a late process
    of that replica cannot join any more, and all who ask later get the same answer.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        try:
            descriptor = os.open(tombstone(path), os.O_RDWR)
        except OSError:
            return False
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_ino != inode:
            return False
        if os.read(descriptor, 64).decode(errors="replace") != boot or boot != boot_id():
            return boot != boot_id() and boot != ""
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        with suppress(FileNotFoundError):  # moved by another who learned of it, or it left in order
            path.rename(tombstone(path))
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
