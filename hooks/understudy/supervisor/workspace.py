"""What a driver has on this machine for itself: its gate, temporary files, Spark's blocks, the places rehearsals write to.

SIGKILL leaves a JVM no time to tidy up: a killed Spark driver leaves its shuffle files and every native library it unpacked.
So each driver gets directories of its own, which go when the last of its processes has gone.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "understudy-driver-"


class OwnDirectory:
    """A new directory below ``parent`` that only this user can read. It is this process's as long as it lives or ``remove``s it.

    The kernel frees the flock however a process ends; then ``sweep`` removes the directory.
    """

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            try:
                self._lock = _locked(self.path)
            except (FileNotFoundError, BlockingIOError):
                continue  # a sweep has come between: it has removed the directory, or is about to
            except OSError:
                with suppress(OSError):
                    self.path.rmdir()
                raise
            if self.path.exists():  # a sweep may have come between
                return
            os.close(self._lock)

    def remove(self) -> None:
        os.close(self._lock)  # first: removing takes a descriptor, and this may be called because there is none
        shutil.rmtree(self.path, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove what processes that are gone have left below ``parent``."""
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # in use, or gone
            lock = _locked(path)
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class Workspaces:
    """Where a replica's drivers work. ``home`` is the cluster's directory on this machine; ``java_options`` go before a JVM's others.

    Spark's blocks stay in the places that SPARK_LOCAL_DIRS names, or beside other temporary files when it is not set. A user's
    own ``spark.local.dir`` or ``java.io.tmpdir`` is left alone, and so is what a killed driver leaves there.
    """

    def __init__(self, home: Path, java_options: str = "") -> None:
        # Gates need no disk and must not wait for one.
        shm = Path("/dev/shm")  # noqa: S108 - see OwnDirectory
        self.gates = shm if os.access(shm, os.W_OK) else Path(tempfile.gettempdir())
        self.java_options = java_options
        self.scratch = home / "scratch"
        self.temporary = Path(tempfile.gettempdir())
        self.blocks = [Path(name) for name in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if name]

    def sweep(self) -> None:
        for parent in (self.gates, self.scratch, self.temporary, *self.blocks):
            sweep(parent)


class Workspace:
    """One driver's, until ``remove``."""

    def __init__(self, among: Workspaces) -> None:
        self._java_options = among.java_options
        self._directories: list[OwnDirectory] = []
        try:
            self.gate = self._own(among.gates) / "gate"
            self.scratch = self._own(among.scratch)
            self._temporary = self._own(among.temporary)
            self._blocks = [self._own_or_given(parent) for parent in among.blocks]
        except BaseException:
            self.remove()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """What tells the driver, its JVM and its Python workers."""
        ours = f"{self._java_options} {shlex.quote(f'-Djava.io.tmpdir={self._temporary}')}"
        options = f"{ours} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
        told = {"TMPDIR": str(self._temporary), "SPARK_SUBMIT_OPTS": options.strip()}
        return {**told, "SPARK_LOCAL_DIRS": ",".join(map(str, self._blocks))} if self._blocks else told

    def remove(self) -> None:
        for directory in self._directories:
            directory.remove()

    def _own_or_given(self, parent: Path) -> Path:
        try:
            return self._own(parent)
        except OSError:
            return parent  # Spark says what is wrong with it, and may have others

    def _own(self, parent: Path) -> Path:
        self._directories.append(OwnDirectory(parent))
        return self._directories[-1].path
