"""Ways past every writer of Spark SQL: gated once a script imports the library that has them, and not imported for that."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from understudy.driver import delta
from understudy.driver.gatekeeper import Gatekeeper
from understudy.driver.importing import when_imported
from understudy.driver.jvm import refuse_connect


def install(gatekeeper: Gatekeeper) -> None:
    when_imported("delta.tables", lambda module: delta.install(module, gatekeeper))
    when_imported("pyspark.ml.util", lambda module: _gate_ml(module, gatekeeper))
    for name in ("util", "classification", "clustering", "regression"):
        when_imported(f"pyspark.mllib.{name}", lambda module: _gate_mllib(module, gatekeeper))
    when_imported("pyspark.streaming.context", lambda module: _gate_streams(module, gatekeeper))
    when_imported("pyspark.sql.connect.session", _refuse_connect)


def _gate_ml(module: ModuleType, gatekeeper: Gatekeeper) -> None:
    """Models' writers: the one of Python's own stages, and the one that asks a Java object, which overwrites by itself."""
    gatekeeper.gate(module.MLWriter, "save")
    gatekeeper.gate(module.JavaMLWriter, "save")


def _gate_mllib(module: ModuleType, gatekeeper: Gatekeeper) -> None:
    """Every kind of model has a ``save`` of its own, or that of ``JavaSaveable``."""
    for model in vars(module).values():
        if isinstance(model, type) and model.__module__ == module.__name__:
            gatekeeper.gate(model, "save")


def _gate_streams(module: ModuleType, gatekeeper: Gatekeeper) -> None:
    """DStreams are not rehearsed: their context starts at the grant."""
    gatekeeper.gate(module.StreamingContext, "start")


def _refuse_connect(module: ModuleType) -> None:
    def refused(self: Any, *_: Any, **__: Any) -> None:
        del self
        raise refuse_connect("pyspark.sql.connect")

    module.SparkSession.__init__ = refused
