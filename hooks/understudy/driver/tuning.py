"""What a streaming checkpoint keeps for ever, and is therefore chosen before its first batch, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.driver.java import java_class

if TYPE_CHECKING:
    from understudy.driver.pending_query import PendingQuery

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"

#: What ``--tune`` sets where the user has not. Spark notes the first and the last in the checkpoint and goes by that note, and the
#: second may be switched at any time; so each start of the query may have the option or not. Version 2 of the state's checkpoint
#: format is no such setting: nothing in the checkpoint tells of it, and a start without it fails.
TUNED = {
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    _PARTITIONS: "8",
}


def tune(session: Any) -> None:
    """For the queries of this session that have no checkpoint yet. What the user has set, wherever, stays."""
    given = session._jsparkSession.sessionState().conf()  # noqa: SLF001
    for key, value in TUNED.items():
        if not given.contains(key):
            session.conf.set(key, value)


def advice(query: PendingQuery) -> str:
    """Defaults that a query with state is about to keep for ever, in words. Empty if its checkpoint has begun."""
    if query.checkpoint is None:  # it keeps nothing
        return ""
    chosen = query.snapshot.java_conf
    session = query.session
    kept = []
    if not chosen.containsKey(_PARTITIONS):
        kept.append(f"{session.conf.get(_PARTITIONS)} shuffle partitions ({_PARTITIONS})")
    if not chosen.containsKey(_PROVIDER):
        kept.append(f"the state store {session.conf.get(_PROVIDER).rpartition('.')[2]} ({_PROVIDER})")
    plans = java_class(session._jvm, "dev.understudy.rehearsal.StatefulPlans")  # noqa: SLF001
    if not kept or not plans.of(query.writer._jwrite):  # noqa: SLF001
        return ""
    offsets = java_class(session._jvm, "org.apache.hadoop.fs.Path")(f"{query.checkpoint}/offsets")  # noqa: SLF001
    if offsets.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).exists(offsets):  # noqa: SLF001
        return ""
    return (
        f"query {query.name} begins a checkpoint that keeps {' and '.join(kept)} for ever. A takeover opens one store per "
        "partition and operator: set them, or give --tune"
    )
