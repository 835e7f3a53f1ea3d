"""Processes as /proc shows them, a stranger's view of replicas. Nothing here imports understudy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One row of /proc. ``started`` (clock ticks since boot) tells a pid from a later one with the same number."""

    pid: int
    parent: int
    session: int
    state: str
    started: int
    command: str


def parse_stat(text: str, command: str) -> Process:
    """``/proc/<pid>/stat``; the name in brackets may hold spaces and brackets itself, so the last one ends it."""
    pid = int(text.partition(" ")[0])
    rest = text.rpartition(")")[2].split()
    return Process(pid, int(rest[1]), int(rest[3]), rest[0], int(rest[19]), command)


def processes() -> dict[int, Process]:
    """Every process there is now, the oldest first, zombies left out.

    By age and not by number: for an instant, until it is told what to run, a child of a JVM looks like the JVM itself, and numbers
    start over when they have reached the highest.
    """
    found: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
            command = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        process = parse_stat(stat, command)
        if process.state != "Z":
            found[process.pid] = process
    return dict(sorted(found.items(), key=lambda item: item[1].started))


@dataclass(frozen=True, slots=True)
class ReplicaProcesses:
    """The processes of one replica as the observer finds them: by descent, by session and by command line."""

    supervisor: Process
    driver: Process | None
    jvm: Process | None
    others: tuple[Process, ...]

    @property
    def all(self) -> tuple[Process, ...]:
        return tuple(found for found in (self.jvm, self.driver, self.supervisor, *self.others) if found is not None)


def user_code_running(jvm: Process | None) -> int:
    """How many ``foreachBatch`` functions and batch writers run: the number in the activity page that the JVM has mapped."""
    if jvm is None:
        return 0
    for line in Path(f"/proc/{jvm.pid}/maps").read_text(encoding="utf-8").splitlines():
        if line.endswith(".activity"):
            path = line.partition("/")[1] + line.partition("/")[2]  # as it is called where the JVM lives
            return running_in(Path(f"/proc/{jvm.pid}/root{path}").read_bytes())
    return 0


def running_in(activity: bytes) -> int:
    """The number that the JVM writes into its activity page."""
    return int.from_bytes(activity[:8], "little")


def replica_of(root: int, table: Mapping[int, Process] | None = None) -> ReplicaProcesses | None:
    """The tree below ``root`` plus every session one of its processes leads; None if ``root`` is dead.

    For a plain ``python job.py`` the root is supervisor and driver in one.
    """
    known = processes() if table is None else table
    if root not in known:
        return None
    tree = {root}
    grown = True
    while grown:
        more = {p.pid for p in known.values() if p.pid not in tree and (p.parent in tree or p.session in tree)}
        grown = bool(more)
        tree |= more
    members = [process for pid, process in known.items() if pid in tree and pid != root]
    jvm = next((p for p in members if _is_jvm(p)), None)
    driver = next((p for p in members if "understudy.driver" in p.command and not _is_jvm(p)), None)
    named = {found.pid for found in (jvm, driver) if found is not None}
    others = tuple(p for p in members if p.pid not in named)
    return ReplicaProcesses(known[root], driver, jvm, others)


def _is_jvm(process: Process) -> bool:
    """The driver's JVM, not the ``spark-submit`` shell that turns into it nor a launcher that prints its arguments."""
    return "java" in process.command.partition(" ")[0] and "org.apache.spark.deploy.SparkSubmit" in process.command


def lives(process: Process | None) -> bool:
    """Whether this very process lives, and not another one with its number."""
    if process is None:
        return False
    try:
        stat = Path("/proc", str(process.pid), "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    now = parse_stat(stat, "")
    return now.started == process.started and now.state != "Z"


def rss_mb(pid: int) -> float:
    """Resident memory in MB (10^6 bytes); 0 if the process is gone."""
    try:
        pages = int(Path("/proc", str(pid), "statm").read_text(encoding="utf-8").split()[1])
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pid: int) -> float:
    """Seconds of CPU (user and system) the process has used; 0 if it is gone."""
    try:
        rest = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")


def holds_lock(path: Path) -> bool:
    """Whether any process holds a POSIX lock on the file (``/proc/locks``): a frozen one would keep it."""
    try:
        status = path.stat()
        locks = Path("/proc/locks").read_text(encoding="utf-8")
    except OSError:
        return False
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return any(inode in line.split() and " POSIX " in line for line in locks.splitlines())
