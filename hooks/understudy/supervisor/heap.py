"""Options for the heap of a driver's JVM that keep its collector out of takeovers (docs/decisions/0073)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from understudy.submit import started_with

#: A pod's memory is its own, and a heap that begins small is collected again and again in a takeover (docs/decisions/0024).
WHOLE_HEAP = "-XX:InitialRAMPercentage=100"

_REGIONS = "-XX:G1HeapRegionSize=8m"
_SMALLER_REGIONS = "-XX:G1HeapRegionSize=4m"
_MEGABYTES = {"b": 1 / (1 << 20), "k": 1 / (1 << 10), "m": 1, "g": 1 << 10, "t": 1 << 20, "p": 1 << 30}


def regions(submit: Sequence[str], environ: Mapping[str, str]) -> str:
    """In regions this large, the arrays that Spark allocates for every batch are as others are. Empty where the JVM's own are as large.

    The option goes before the user's, which win; collectors other than G1 take no notice of it.
    """
    memory = _driver_memory(submit, environ)
    if memory >= 16 << 10:
        return ""
    return _REGIONS if memory >= 1 << 10 else _SMALLER_REGIONS


def _driver_memory(submit: Sequence[str], environ: Mapping[str, str]) -> float:
    """Megabytes; Spark's default where it is not said, or not in Spark's words: then spark-submit refuses it."""
    given = started_with(submit, environ, "--driver-memory", "spark.driver.memory")
    given = given or environ.get("SPARK_DRIVER_MEMORY", "")
    told = re.fullmatch(r"(\d+)([bkmgtp]?)b?", given.strip().lower())
    return int(told[1]) * _MEGABYTES[told[2] or "m"] if told else 1 << 10
