"""Executors of a session: a standby keeps a few warm, a leader asks for all of them."""

from __future__ import annotations

import time

from pyspark import SparkContext

from understudy.driver.java import java_class


def ask_for(count: int) -> None:
    """Ask the cluster manager for ``count`` executors in all, once there is a session. Returns when it has been told."""
    # Registered before it is complete: its JVM half comes last.
    while (context := SparkContext._active_spark_context) is None or not hasattr(context, "_jsc"):  # noqa: SLF001
        time.sleep(0.1)
    jvm = context._jvm  # noqa: SLF001
    nowhere = java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap(
        java_class(jvm, "java.util.HashMap")()
    )
    context._jsc.sc().requestTotalExecutors(count, 0, nowhere)  # noqa: SLF001
