"""Python workers under understudy: PySpark's own daemon, holding its replica's proof of life.

The JVM closes inherited descriptors when it starts a process, so the daemon joins by name; the workers it forks inherit.
"""

from __future__ import annotations

import os
import sys

from pyspark import daemon

from understudy.messages import ALIVE_VARIABLE
from understudy.processes import join_alive

if __name__ == "__main__":
    sys.modules["pyspark.daemon"] = daemon
    if path := os.environ.get(ALIVE_VARIABLE):
        join_alive(path)  # kept open for as long as this process and its workers live
    daemon.manager()
