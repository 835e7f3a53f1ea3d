"""Delta Lake's own Python API: its methods change a table without a writer of Spark's, so they wait for the grant, too.

SQL and ``format("delta")`` need nothing of this: they are Spark's statements and writers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from understudy.driver.gate_client import GateClient
from understudy.driver.scala import private_field
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import DELTA, DELTA_BUILDER, DELTA_MERGE


def install(patches: PatchRegistry, module: ModuleType, gate_client: GateClient) -> None:
    """Gate the methods of ``delta.tables`` that write. Its versions differ in which they have."""
    builder, merge = f"{DELTA_BUILDER}.execute", f"{DELTA_MERGE}.execute"
    for target in patches.targets_in(DELTA):
        if target != builder:
            patches.replace(target, gate_client.redirected if target == merge else gate_client.gated)

    def unless_it_exists(stock: Callable[..., Any]) -> Callable[..., Any]:
        gated = gate_client.gated(stock)

        def execute(self: Any) -> Any:
            if not _exists_already(module, self):
                return gated(self)
            if not gate_client.rehearsed.here:
                return stock(self)
            with gate_client.rehearsed.commands(self._spark, builder, changes=False):
                return stock(self)

        return execute

    patches.replace(builder, unless_it_exists)


def _exists_already(module: ModuleType, builder: Any) -> bool:
    """Whether ``createIfNotExists`` is going to change nothing."""
    options = private_field(builder._jbuilder, "builderOption")  # noqa: SLF001
    if options.getClass().getSimpleName() != "CreateTableOptions" or not options.ifNotExists():
        return False
    name = private_field(builder._jbuilder, "identifier")  # noqa: SLF001
    if name is not None:
        return bool(builder._spark.catalog.tableExists(name))  # noqa: SLF001
    location = private_field(builder._jbuilder, "location")  # noqa: SLF001
    return bool(location.isDefined() and module.DeltaTable.isDeltaTable(builder._spark, location.get()))  # noqa: SLF001
