"""What a stranger sees of a failover: checkpoint files, sinks, the fence's log. Nothing here imports understudy; nor does
``procs``, which sees processes.

Times are wall-clock seconds of this machine. A commit's time is when it was first seen (polled every ``POLL_S``), so it is
late by at most that and never early. What it cannot see: who wrote a checkpoint file; the fence's log says so, and where no
fence runs (the baselines) the caller has to make sure that the old processes are dead.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.004

#: Operations of the fence's log after which something stands in a log that did not stand there before.
LANDINGS = frozenset({"publish", "delete", "commitJob", "deleteWithJob"})

#: Spark keeps this many batches of its logs (``spark.sql.streaming.minBatchesToRetain``); older entries go.
RETAINED = 100


@dataclass(frozen=True, slots=True)
class Commit:
    """``commits/<batch>`` of one query appeared at ``seen`` (s since 1970); ``input`` says whether its batch read rows."""

    query: str
    batch: int
    seen: float
    input: bool


def batch_offsets(checkpoint: Path, batch: int) -> tuple[str, ...] | None:
    """The source offsets of ``offsets/<batch>``, one line per source; None if there is no such entry (yet, or any more)."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    return tuple(lines[2:])


def batch_watermark_ms(checkpoint: Path, batch: int) -> int | None:
    """The watermark (ms since 1970) that ``batch`` ran under, from its offsets entry; None if there is none."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        return int(json.loads(lines[1])["batchWatermarkMs"])
    except (FileNotFoundError, IndexError, ValueError, KeyError):
        return None


def had_input(checkpoint: Path, batch: int) -> bool:
    """Whether the batch read anything: its offsets differ from those of the batch before."""
    now = batch_offsets(checkpoint, batch)
    if now is None:
        return False
    before = batch_offsets(checkpoint, batch - 1) if batch > 0 else None
    return any(line != "-" for line in now) if before is None else now != before


def last_entry(log: Path) -> int:
    """The highest number in a log directory (``offsets``, ``commits``, a source's), also of a compacted entry; -1 if there is none."""
    try:
        names = [name.removesuffix(".compact") for name in os.listdir(log)]
        return max((int(name) for name in names if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


def all_files_read(checkpoint: Path) -> int:
    """As ``files_read``, of all its file sources."""
    try:
        return sum(files_read(checkpoint, source) for source in os.listdir(checkpoint / "sources"))
    except FileNotFoundError:
        return 0


def files_read(checkpoint: Path, source: str = "0") -> int:
    """How many input files the log of a file source holds, from its entries and its compacted ones."""
    return len(files_logged(checkpoint / "sources" / source))


def files_logged(log: Path) -> set[str]:
    """The files that a log of a file source or sink holds, from its entries and its compacted ones; paths as they stand there."""
    try:
        names = os.listdir(log)
    except FileNotFoundError:
        return set()
    compacted = max((int(name.partition(".")[0]) for name in names if name.endswith(".compact")), default=-1)
    wanted = [name for name in names if name.isdigit() and int(name) > compacted]
    if compacted >= 0:
        wanted.append(f"{compacted}.compact")
    files: set[str] = set()
    for name in wanted:
        try:
            lines = (log / name).read_text(encoding="utf-8").splitlines()[1:]
        except FileNotFoundError:  # compacted meanwhile; the next look sees it
            continue
        files.update(json.loads(line)["path"] for line in lines)
    return files


def all_committed(checkpoint: Path, source: str = "0") -> bool:
    """Whether every file that a file source has logged is in a batch that is committed: it logs them before the batch is in ``offsets``."""
    logged = last_entry(checkpoint / "sources" / source)
    planned = batch_offsets(checkpoint, last_entry(checkpoint / "offsets"))
    if in_flight(checkpoint) is not None or planned is None:
        return False
    return bool(json.loads(planned[int(source)])["logOffset"] >= logged)


def messages_read(checkpoint: Path) -> int:
    """How many messages of Kafka, from the first on, the newest batch ends with: the offsets of all partitions, added up."""
    topics = [
        json.loads(line) for line in batch_offsets(checkpoint, last_entry(checkpoint / "offsets")) or () if line != "-"
    ]
    return sum(offset for source in topics for partitions in source.values() for offset in partitions.values())


def batch_seconds(checkpoint: Path) -> list[float]:
    """From the entry in ``offsets`` to that in ``commits`` of each batch of which Spark keeps both, by the times of the files."""
    planned, done = checkpoint / "offsets", checkpoint / "commits"
    both = set(os.listdir(planned)) & {name for name in os.listdir(done) if name.isdigit()}
    return [(done / name).stat().st_mtime - (planned / name).stat().st_mtime for name in both]


def in_flight(checkpoint: Path) -> int | None:
    """The batch that stands in ``offsets`` and not in ``commits``, if there is one."""
    offered = last_entry(checkpoint / "offsets")
    return offered if offered > last_entry(checkpoint / "commits") else None


@dataclass(slots=True)
class CommitWatch:
    """Sees every new ``commits/N`` of the checkpoints below ``root`` within ``POLL_S``, from a thread of its own.

    It asks for the one next number of each query (Spark numbers batches without gaps), so looking 250 times a second
    costs next to nothing.
    """

    root: Path
    queries: Sequence[str]
    poll_s: float = POLL_S
    commits: list[Commit] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._next = {query: last_entry(self.root / query / "commits") + 1 for query in self.queries}
        self._thread = threading.Thread(target=self._run, name="commit-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self.poll_s):
            for query in self.queries:
                self._look(query)

    def _look(self, query: str) -> None:
        while True:
            batch = self._next[query]
            if not (self.root / query / "commits" / str(batch)).exists():
                return
            seen = time.time()
            commit = Commit(query, batch, seen, had_input(self.root / query, batch))
            self._next[query] = batch + 1
            with self._news:
                self.commits.append(commit)
                self._news.notify_all()

    def first(self, wanted: Callable[[Commit], bool], timeout_s: float) -> Commit | None:
        """The first commit, seen already or within ``timeout_s`` from now, that ``wanted`` accepts; None after that."""
        deadline = time.monotonic() + timeout_s
        start = 0
        while True:
            with self._news:
                for commit in self.commits[start:]:
                    if wanted(commit):
                        return commit
                start = len(self.commits)
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._news.wait(min(left, 0.5))


# --- the fence's log -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FenceLine:
    """One line of ``fence-<holder>.jsonl``. ``at`` is s since 1970; ``token`` is ``epoch << 32 | attempt``."""

    at: float
    token: int
    holder: str
    op: str
    path: str
    outcome: str
    reason: str

    @property
    def epoch(self) -> int:
        return self.token >> 32

    @property
    def log(self) -> str:
        """The directory the write belongs to (``…/offsets``, ``…/_spark_metadata``), without a ``file:`` in front."""
        return local_path(self.path).rpartition("/")[0]


def local_path(path: str) -> str:
    """``file:///a``, ``file:/a`` and ``/a`` are one path."""
    plain = path.removeprefix("file:")
    return "/" + plain.lstrip("/") if plain.startswith("/") else plain


def parse_fence_line(line: str) -> FenceLine | None:
    """A line, or None for one that is torn: its writer was killed in the middle of it."""
    try:
        found = json.loads(line)
        return FenceLine(
            at=found["t"] / 1000,
            token=int(found.get("token", 0)),
            holder=str(found.get("holder", "")),
            op=str(found["op"]),
            path=str(found.get("path", "")),
            outcome=str(found.get("outcome", "")),
            reason=str(found.get("reason", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_fence_logs(directory: Path) -> list[FenceLine]:
    """Every whole line of every ``fence-*.jsonl`` in ``directory`` and of what these were before they were rotated, in order of time
    (ties: as they stand in a file).
    """
    lines: list[FenceLine] = []
    for path in sorted(directory.glob("fence-*.jsonl*"), reverse=True):  # of one log, the older part first
        with path.open(encoding="utf-8", errors="replace") as opened:
            lines.extend(parsed for parsed in map(parse_fence_line, opened) if parsed is not None)
    return sorted(lines, key=lambda line: line.at)


def modified_at(path: str) -> float | None:
    """When the file was written (s since 1970); None if it is gone."""
    try:
        return os.stat(local_path(path)).st_mtime
    except OSError:
        return None


def stale_accepted(
    lines: Iterable[FenceLine], written_at: Callable[[str], float | None] = modified_at
) -> list[FenceLine]:
    """Writes that landed in a log after a write of a higher token in that log. There must never be one.

    A line is written after its write has landed, so a process frozen between the two logs late what landed early: the
    file's own time decides then, and a write that is older than the higher token's first one is ordered before it. A
    deleted file has no time left: it counts as stale unless ``written_at`` knows better.
    """
    highest: dict[str, tuple[int, float]] = {}
    stale: list[FenceLine] = []
    for line in lines:
        if line.outcome != "accepted" or line.op not in LANDINGS:
            continue
        token, since = highest.get(line.log, (0, 0.0))
        if line.token >= token:
            if line.token > token:
                highest[line.log] = (line.token, line.at)
            continue
        landed = written_at(line.path) if line.op in {"publish", "delete"} else None
        if landed is None or landed > since:
            stale.append(line)
    return stale


def stale_refused(lines: Iterable[FenceLine]) -> list[FenceLine]:
    """Writes the fence refused to a process after a higher token had been seen anywhere in the log: a stale leader's."""
    highest = 0
    stale: list[FenceLine] = []
    for line in lines:
        if line.outcome == "refused" and line.op not in {"claim", "halt"} and line.token < highest:
            stale.append(line)
        elif line.outcome == "accepted":
            highest = max(highest, line.token)
    return stale


# --- fingerprints ----------------------------------------------------------------------------------------------------------


def fingerprint(directories: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of every file below the directories.

    No data of a sink is left out: half-written hidden files (``.x.tmp``), and files that a sink's tasks have not published
    (``_understudy/staging-…``, which every reader passes over).
    """
    found: dict[str, str] = {}
    for directory in directories:
        for folder, below, names in os.walk(directory):
            below[:] = [name for name in below if not name.startswith("staging-")]
            for name in names:
                path = Path(folder, name)
                if name.startswith(".") and name.endswith(".tmp"):
                    continue
                try:
                    with path.open("rb") as opened:
                        found[str(path)] = hashlib.file_digest(opened, "sha256").hexdigest()
                except FileNotFoundError:
                    continue
    return found


def sqlite_fingerprint(database: Path) -> dict[str, str]:
    """SHA-256 of the rows of each batch: the file's own bytes may move while its content stays."""
    if not database.exists():
        return {}
    found: dict[str, str] = {}
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        digests: dict[int, list[bytes]] = {}
        try:
            for row in connection.execute("SELECT * FROM flights"):
                digests.setdefault(row[0], []).append(hashlib.sha256(repr(row).encode()).digest())
        except sqlite3.OperationalError:  # no table yet
            return {}
    for batch, rows in digests.items():
        found[f"{database}#{batch}"] = hashlib.sha256(b"".join(sorted(rows))).hexdigest()
    return found


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What a thawed leader did to what stood there: every entry changed, gone or new, as readable words."""
    return sorted(
        [f"gone: {path}" for path in before.keys() - after.keys()]
        + [f"new: {path}" for path in after.keys() - before.keys()]
        + [f"changed: {path}" for path in before.keys() & after.keys() if before[path] != after[path]]
    )
