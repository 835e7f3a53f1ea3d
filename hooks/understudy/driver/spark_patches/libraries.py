"""Libraries that write without Spark SQL: patched when a script imports them, and not imported for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.driver.gate_client import GateClient
from understudy.driver.jvm import refuse_connect
from understudy.driver.spark_patches import delta
from understudy.driver.spark_patches.import_hook import when_imported
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import DELTA, MLLIB

#: Their declared targets are writers of models, and the start of a context of DStreams.
_GATED = ("pyspark.ml.util", *MLLIB, "pyspark.streaming.context")

_CONNECT = "pyspark.sql.connect.session"


def install(patches: PatchRegistry, gate_client: GateClient) -> None:
    when_imported(DELTA, lambda module: delta.install(patches, module, gate_client))
    for name in _GATED:
        when_imported(name, lambda module: _gate_all(patches, module.__name__, gate_client))
    when_imported(_CONNECT, lambda _: _refuse_connect(patches))


def _gate_all(patches: PatchRegistry, module: str, gate_client: GateClient) -> None:
    for target in patches.targets_in(module):
        patches.replace(target, gate_client.gated)


def _refuse_connect(patches: PatchRegistry) -> None:
    def refusing(stock: Callable[..., None]) -> Callable[..., None]:
        del stock

        def refused(self: Any, *_: Any, **__: Any) -> None:
            del self
            raise refuse_connect("pyspark.sql.connect")

        return refused

    patches.replace(f"{_CONNECT}:SparkSession.__init__", refusing)
