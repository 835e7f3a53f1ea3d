"""Delta Lake's own Python API: its methods change a table past every writer of Spark's, so they wait for the grant, too.

SQL and ``format("delta")`` need nothing of this: they are Spark's statements and writers.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from understudy.driver.gate_client import GateClient
from understudy.driver.scala import private_field

_CHANGES = {
    "DeltaTable": (
        "delete",
        "update",
        "generate",
        "vacuum",
        "convertToDelta",
        "upgradeTableProtocol",
        "addFeatureSupport",
        "dropFeatureSupport",
        "restoreToVersion",
        "restoreToTimestamp",
        "clone",
        "cloneAtVersion",
        "cloneAtTimestamp",
    ),
    "DeltaMergeBuilder": ("execute",),
    "DeltaOptimizeBuilder": ("executeCompaction", "executeZOrderBy"),
}


def install(module: ModuleType, gate_client: GateClient) -> None:
    """Gate the methods of ``delta.tables`` that write; other versions of it have others of them."""
    for owner, names in _CHANGES.items():
        gate_client.gate(getattr(module, owner, object), *names)
    _gate_builder(module, gate_client)


def _gate_builder(module: ModuleType, gate_client: GateClient) -> None:
    stock = module.DeltaTableBuilder.execute
    gated = gate_client.gated(stock)

    @functools.wraps(stock)
    def execute(self: Any) -> Any:
        return stock(self) if _exists_already(module, self) else gated(self)

    module.DeltaTableBuilder.execute = execute


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
