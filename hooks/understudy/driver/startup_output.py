"""What a JVM writes before it fails to start: copied to the driver's standard error, its last lines kept until it has started."""

from __future__ import annotations

import os
import re
import select
import subprocess
import threading
from collections import deque
from contextlib import suppress

_STDERR = 2
_LINES = 60
_TOLD = 6
_LONGEST = 1200

#: Seconds between two looks at whether the JVM has started.
_LOOK = 0.05

#: Stack frames, lines that every Spark writes, and log lines below an error.
_NOISE = re.compile(
    r"^(\s*$|\s+at |\s+\.\.\. |WARNING: Using incubator|Using Spark's default log4j|[\d/-]+ [\d:.]+ (WARN|INFO|DEBUG) )"
)

#: What comes of the command line, the files it names, or a port that another program has, and comes again at every start. Memory
#: that is short, a repository or a store out of reach may get better, and so may what is not known here.
_PERMANENT = re.compile(
    r"Unrecognized (VM )?option"
    r"|Invalid (maximum|initial) heap size|Conflicting collector combinations|Multiple garbage collectors selected"
    r"|Could not find or load main class|ClassNotFoundException|NoClassDefFoundError|UnsupportedClassVersionError"
    r"|Error opening zip file or JAR manifest missing|Could not find agent library|agent library failed to init"
    r"|Port already in use|Address already in use"
    r"|eploy mode .* not (applicable|compatible|supported)|is currently not supported"
    r"|Properties file .* (does not exist|not found)|Must specify|Unknown/unsupported param|Missing argument for option"
    r"|Master must either be|Could not parse Master URL|JAVA_HOME is not set|Failed to find Spark jars directory"
)


def is_permanent(output: str) -> bool:
    """Whether a JVM that ended with this output ends so at every start."""
    return _PERMANENT.search(output) is not None


def reason_in(lines: list[str]) -> str:
    """The last lines that are not noise, as one line."""
    told = [line.strip() for line in lines if not _NOISE.search(line)]
    return "; ".join(told[-_TOLD:])[-_LONGEST:]


class StartupOutput:
    """A pipe for a JVM's standard error: ``descriptor`` is the JVM's end.

    Read by a thread here until ``started``, and by ``cat`` from then on: what a JVM logs must not wait for a thread of Python,
    which waits itself while the user's code holds the interpreter.
    """

    def __init__(self) -> None:
        self._reads, self.descriptor = os.pipe()
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._rest = b""
        self._started = threading.Event()
        self.copier: subprocess.Popen[bytes] | None = None  # kept: a child that is collected while it runs warns
        self._thread = threading.Thread(target=self._copy, name="startup-output", daemon=True)

    def begin(self) -> None:
        """After the JVM has its end: ours of that is closed."""
        os.close(self.descriptor)
        self._thread.start()

    def started(self) -> None:
        self._started.set()

    def lines(self) -> list[str]:
        """All that is kept, once the JVM has ended."""
        self._thread.join(timeout=5)
        return [*self._lines, self._rest.decode(errors="replace")]

    def _copy(self) -> None:
        try:
            while not self._started.is_set():
                if select.select([self._reads], [], [], _LOOK)[0] and not self._take():
                    return
            with suppress(OSError):  # without `cat`, as before
                self.copier = subprocess.Popen(["cat"], stdin=self._reads, stdout=_STDERR)
                return
            while self._take():
                pass
        finally:
            os.close(self._reads)

    def _take(self) -> bool:
        data = os.read(self._reads, 1 << 16)
        with suppress(OSError):  # the reader of ours is gone
            os.write(_STDERR, data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line.decode(errors="replace") for line in lines)
        self._rest = self._rest[-(1 << 16) :]
        return bool(data)
