"""The fence's logs on this machine: one or two files for each replica that ever led here, until they are pruned."""

from __future__ import annotations

import fcntl
import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

#: So many dead replicas' logs stay for people to read, or as many as the environment says.
_KEPT = 8
KEPT_VARIABLE = "UNDERSTUDY_FENCE_LOGS_KEPT"


def path_of(home: Path, holder: str) -> Path:
    return home / "log" / f"fence-{holder}.jsonl"


def prune(home: Path, own: str) -> None:
    """Remove the logs of replicas that are gone, but for the newest few. ``own`` is this replica's holder."""
    kept = os.environ.get(KEPT_VARIABLE, "")
    files: defaultdict[str, list[Path]] = defaultdict(list)
    for path in (home / "log").glob("fence-*.jsonl*"):
        files[path.name.removeprefix("fence-").partition(".jsonl")[0]].append(path)
    files.pop(own, None)
    gone = [holder for holder in files if not _lives(home / "alive" / holder.rpartition("_")[2])]
    gone.sort(key=lambda holder: max(map(_changed, files[holder])), reverse=True)
    for holder in gone[int(kept) if kept.isdigit() else _KEPT :]:
        for path in files[holder]:
            path.unlink(missing_ok=True)


def _changed(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _lives(alive: Path) -> bool:
    """Whether a process holds this proof of life."""
    try:
        descriptor = os.open(alive, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be told, and a log is not worth a mistake
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
