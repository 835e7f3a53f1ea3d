"""When a standby's script has to run again from the top: it began long ago, or what it began with is no longer so."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from understudy.clock import Clock
from understudy.errors import SettingsError
from understudy.protocol.messages import RehearsalReport
from understudy.submit import FILES, local_files

#: A rehearsal may fail once because the leader went on meanwhile; twice in a row it does not.
_FAILURES = 2
#: Between two runs from the top there are at least so many seconds, and twice as many each time something had changed again: a
#: table that is overwritten every minute must not keep a standby from ever being ready.
_AT_LEAST = 30.0
#: Standbys that were started together do not grow old together: this much of an age is left to chance.
_SPREAD = 0.1
#: Tokens, which are replaced every hour and which clients read again. In most images the first is a link to the second.
_TOKENS = (Path("/var/run/secrets"), Path("/run/secrets"))

Version = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class ReloadDue:
    """``urgent``: what the standby has rehearsed may not work any more, so it is no loss while it starts again."""

    reason: str
    urgent: bool


class StandbyStaleness:
    """One replica's. ``max_age`` in seconds of ``clock``; ``submit`` and ``mounts`` say which files make up the configuration."""

    def __init__(
        self,
        max_age: float,
        submit: Sequence[str],
        mounts: Sequence[Path],
        clock: Clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._max_age = max_age
        self._submit = submit
        self._mounts = mounts
        self._clock = clock
        self._chance = chance
        self._pause = self._at_least = min(_AT_LEAST, max_age)
        self.began(None)

    def began(self, because: ReloadDue | None) -> None:
        """A standby's driver starts now; ``because`` of what its predecessor was ended, if it was for its age."""
        self._pause = min(2 * self._pause, self._max_age) if because is not None and because.urgent else self._at_least
        self._began_at = self._clock.now()
        self._until = self._began_at + self._max_age * (1.0 - _SPREAD * self._chance())
        self._versions = dict(self._configuration())
        self._worked, self._failures, self._failed, self._outdated = False, 0, "", ""

    def note(self, standing: RehearsalReport) -> None:
        if standing.rehearsed:
            self._worked, self._failures = True, 0
        elif standing.reason:
            self._failures, self._failed = self._failures + 1, standing.reason
        self._outdated = standing.outdated

    def due(self) -> ReloadDue | None:
        now = self._clock.now()
        if now < self._began_at + self._pause:
            return None
        if self._outdated:
            return ReloadDue(self._outdated, urgent=True)
        if self._worked and self._failures >= _FAILURES:
            return ReloadDue(f"a rehearsal that used to work fails: {self._failed}", urgent=True)
        changed = next((path for path, version in self._versions.items() if version_of(path) != version), None)
        if changed is not None:
            return ReloadDue(f"{changed} has changed since the script began", urgent=True)
        if now >= self._until:
            return ReloadDue(f"the script began {now - self._began_at:.0f} s ago", urgent=False)
        return None

    def _configuration(self) -> Iterator[tuple[Path, Version]]:
        for path in (*self._mounts, *files_named_by(self._submit, os.environ)):
            yield path, version_of(path)


def files_named_by(submit: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Local files of Spark's configuration: of ``SPARK_CONF_DIR``, or of spark-submit's options and the settings they stand for."""
    home = environment.get("SPARK_HOME")
    directory = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    if directory and (found := Path(directory)).is_dir():
        yield from sorted(path for path in found.iterdir() if path.is_file())
    for name, setting in {"--properties-file": "", **FILES}.items():
        with suppress(SettingsError):  # of a file that cannot be read the driver's start tells
            yield from local_files(submit, environment, name, setting)


def mounted(mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[Path, ...]:
    """Volumes that a kubelet replaces as a whole, which are those of Secrets and ConfigMaps: they have a link ``..data``."""
    points = [Path(line.split()[4].replace("\\040", " ")) for line in mountinfo.read_text().splitlines()]
    links = [point / "..data" for point in points if not any(map(point.is_relative_to, _TOKENS))]
    return tuple(link for link in links if link.is_symlink())


def version_of(path: Path) -> Version:
    """Something else whenever the file is another, or is written to; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
