"""Python workers under understudy: PySpark's own daemon, holding its replica's proof of life.

The JVM closes inherited descriptors when it starts a process, so the daemon joins by name; the workers it forks inherit.
"""

from __future__ import annotations

import sys

import understudy_alive  # type: ignore[import-not-found]
from pyspark import daemon

if __name__ == "__main__":
    sys.modules["pyspark.daemon"] = daemon
    understudy_alive.join()  # kept open for as long as this process and its workers live
    daemon.manager()
