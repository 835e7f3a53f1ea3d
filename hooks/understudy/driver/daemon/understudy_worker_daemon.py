"""Python workers under understudy: PySpark's own daemon, holding its replica's proof of life.

The JVM closes inherited descriptors when it starts a process, so the daemon joins by name; the workers it forks inherit.

Alone in its directory, which is put on the workers' path, and in need of nothing but PySpark: the interpreter that a script names
for its workers (``PYSPARK_PYTHON``) need not have this package.
"""

from __future__ import annotations

import fcntl
import os
import sys

from pyspark import daemon


def join_alive(path: str) -> int:
    """Take part in a replica's proof of life, for a process that could not inherit it. Exits when the replica is given up."""
    try:
        descriptor = os.open(path, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            return descriptor
    except OSError:
        pass
    sys.stderr.write("understudy: this replica was declared dead; a late process of it does not start\n")
    os._exit(87)


if __name__ == "__main__":
    sys.modules["pyspark.daemon"] = daemon
    if path := os.environ.get("UNDERSTUDY_ALIVE"):
        join_alive(path)  # kept open for as long as this process and its workers live
    daemon.manager()
