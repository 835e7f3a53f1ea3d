"""Ways past every writer of Spark SQL: gated once a script imports the library that has them, and not imported for that."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from understudy.driver.gate_client import GateClient
from understudy.driver.jvm import refuse_connect
from understudy.driver.spark_patches import delta
from understudy.driver.spark_patches.import_hook import when_imported


def install(gate_client: GateClient) -> None:
    when_imported("delta.tables", lambda module: delta.install(module, gate_client))
    when_imported("pyspark.ml.util", lambda module: _gate_ml(module, gate_client))
    for name in ("util", "classification", "clustering", "regression"):
        when_imported(f"pyspark.mllib.{name}", lambda module: _gate_mllib(module, gate_client))
    when_imported("pyspark.streaming.context", lambda module: _gate_streams(module, gate_client))
    when_imported("pyspark.sql.connect.session", _refuse_connect)


def _gate_ml(module: ModuleType, gate_client: GateClient) -> None:
    """Models' writers: the one of Python's own stages, and the one that asks a Java object, which overwrites by itself."""
    gate_client.gate(module.MLWriter, "save")
    gate_client.gate(module.JavaMLWriter, "save")


def _gate_mllib(module: ModuleType, gate_client: GateClient) -> None:
    """Every kind of model has a ``save`` of its own, or that of ``JavaSaveable``."""
    for model in vars(module).values():
        if isinstance(model, type) and model.__module__ == module.__name__:
            gate_client.gate(model, "save")


def _gate_streams(module: ModuleType, gate_client: GateClient) -> None:
    """DStreams are not rehearsed: their context starts at the grant."""
    gate_client.gate(module.StreamingContext, "start")


def _refuse_connect(module: ModuleType) -> None:
    def refused(self: Any, *_: Any, **__: Any) -> None:
        del self
        raise refuse_connect("pyspark.sql.connect")

    module.SparkSession.__init__ = refused
