"""Whether a directory can hold documents and evidence: asked once, before anything is written there.

Documents need link(2) that fails on an existing name, and listings and fsync that mean what they say; evidence needs flock(2)
that frees when the last process is gone. Network and user-space filesystems break one or the other, some of them only on a
bad day, so they are refused by kind and not tried out.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from understudy.errors import SettingsError

#: ``f_type`` of statfs(2), from linux/magic.h and the kernel modules.
_REMOTE: Mapping[int, str] = MappingProxyType(
    {
        0x6969: "NFS",
        0xFF534D42: "CIFS",
        0xFE534D42: "SMB2",
        0x517B: "SMB",
        0x564C: "NCP",
        0x65735546: "FUSE",
        0x01021997: "9p",
        0x5346414F: "AFS",
        0x6B414653: "AFS",
        0x73757245: "Coda",
        0x00C36400: "Ceph",
        0x0BD00BD0: "Lustre",
        0x47504653: "GPFS",
        0x20030528: "OrangeFS",
        0x01161970: "GFS2",
        0x7461636F: "OCFS2",
        0xAAD7AAEA: "PanFS",
        0x786F4256: "vboxsf",
        0xBACBACBC: "vmhgfs",
        0x19830326: "BeeGFS",
    }
)

_REMEDY = "Choose a directory on a local disk (ext4, xfs, btrfs, tmpfs)"


def filesystem_type(path: Path) -> int:
    """``f_type`` of the filesystem that holds ``path``, which exists. Raises ``OSError``."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(512)  # struct statfs has 120 bytes; its first field is f_type, a long
    if libc.statfs(os.fsencode(path), buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return ctypes.c_ulong.from_buffer(buffer).value & 0xFFFFFFFF


def network_filesystem(path: Path) -> str | None:
    """What kind of network or user-space filesystem holds ``path``, or its nearest parent that exists; ``None`` for a local one.

    Raises ``OSError``.
    """
    return _REMOTE.get(filesystem_type(next(each for each in (path, *path.absolute().parents) if each.exists())))


def check_directory(
    path: Path,
    *,
    kind: Callable[[Path], int] = filesystem_type,
    lock: Callable[[int, int], None] = fcntl.flock,
    link: Callable[[Path, Path], None] = os.link,
) -> None:
    """Make ``path`` if it is missing and try what we need of it; everything tried is removed again.

    Raises ``SettingsError`` when it cannot be made or written, when it is on a network or user-space filesystem, or when
    flock(2) or link(2) do not do there what they do on a local disk. Blocks. ``kind``, ``lock`` and ``link`` are for tests.
    """
    where = str(path)
    try:
        # Before it is made: nothing is left behind on a filesystem we refuse.
        existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        remote = _REMOTE.get(kind(existing))
        if remote is not None:
            raise SettingsError(
                f"is on {remote}, where neither locks nor link(2) can be relied on", where=where, remedy=_REMEDY
            )
        path.mkdir(parents=True, exist_ok=True)
        trial = path / f".{uuid.uuid4().hex}.tmp"
        try:
            _try(trial, lock, link)
        finally:
            for leftover in (trial, trial.with_suffix(".link")):
                with contextlib.suppress(OSError):
                    leftover.unlink()
    except OSError as error:
        raise SettingsError(f"cannot be used: {error.strerror or error}", where=where, remedy=_REMEDY) from error


@contextlib.contextmanager
def nothing_left_of(path: Path) -> Iterator[None]:
    """Where an error ends the block, remove ``path`` and those of its parents that were not there before, if it holds empty directories alone.

    Not guaranteed: that another process which begins below ``path`` in that moment, and has no file there yet, can go on. Blocks.
    """
    missing = [each for each in (path, *path.absolute().parents) if not each.exists()]
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # a file in ``path`` is one, too
            made = list(path.iterdir()) if missing else []
            if not any(any(each.iterdir()) for each in made):
                for each in (*made, *missing):
                    each.rmdir()
        raise


def _try(trial: Path, lock: Callable[[int, int], None], link: Callable[[Path, Path], None]) -> None:
    where = str(trial.parent)
    first = os.open(trial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    second = os.open(trial, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.write(first, b"\n")
        os.fsync(first)
        lock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(BlockingIOError):
            lock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            raise SettingsError("has no working flock(2): one lock was given twice", where=where, remedy=_REMEDY)
        other = trial.with_suffix(".link")
        link(trial, other)
        with contextlib.suppress(FileExistsError):
            link(trial, other)
            raise SettingsError("has no working link(2): one name was given twice", where=where, remedy=_REMEDY)
    finally:
        os.close(second)
        os.close(first)
