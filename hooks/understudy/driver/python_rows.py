"""Streaming sources in Python that make their rows up, for rehearsals of a query that has one of its own.

A rehearsal never calls a source of the script's: it may acknowledge what it reads. So what Spark does for any source in Python (its
interpreter in the driver, readers in workers, rows as Arrow) is rehearsed with these.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

from understudy.driver.java import java_class

_ROWS = 100
_SCHEMA = "number long, text string"

# Workers need not have this package.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def _rows() -> Iterator[tuple[int, str]]:
    return iter([(number, str(number)) for number in range(_ROWS)])


class _Reader(DataSourceStreamReader):
    """One batch, whose partitions are read in workers."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802, ARG002
        return {"rows": _ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:  # noqa: ARG002
        return _rows()


class _SimpleReader(SimpleDataSourceStreamReader):
    """One batch, which is read in the driver."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int, str]], dict[str, int]]:
        return (iter(()) if start["rows"] else _rows()), {"rows": _ROWS}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int, str]]:  # noqa: N802, ARG002
        return _rows()


class _Partitioned(DataSource):
    @classmethod
    def name(cls) -> str:
        return "understudy-rows-partitioned"

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002
        return _Reader()


class _Simple(DataSource):
    @classmethod
    def name(cls) -> str:
        return "understudy-rows-simple"

    def schema(self) -> str:
        return _SCHEMA

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802, ARG002
        return _SimpleReader()


def rehearsal(session: SparkSession, settings: Any, scratch: str) -> Any:
    """A rehearsal in the JVM that reads from both, and writes to ``scratch``. The script's session does not know of them."""
    apart = copy.copy(session)  # one that is made becomes that of `RDD.toDF`, for the script too
    apart._jsparkSession = session._jsparkSession.newSession()  # noqa: SLF001
    for source in (_Partitioned, _Simple):
        apart.dataSource.register(source)
    first, second = (apart.readStream.format(each.name()).load() for each in (_Partitioned, _Simple))
    writer = first.unionAll(second).writeStream.format("parquet")
    made = java_class(session._jvm, "dev.understudy.rehearsal.Rehearsal")  # noqa: SLF001
    return made.of(writer._jwrite, None, None, settings, None, scratch, "live")  # noqa: SLF001
