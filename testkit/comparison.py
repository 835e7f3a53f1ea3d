"""Compare every sink row by row with one batch query over the same files: what was lost, what is there twice.

``python -m testkit.comparison --input DIR --output DIR`` prints one JSON object. It runs in a process of its own, with stock
Spark and none of our classes, and shares no line with the streaming script.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: The rows both sinks must hold; the closing file's one row counts nowhere.
_FLIGHTS = """
    SELECT carrier, CAST(flight AS INT) AS flight, origin, date_format(scheduled, 'yyyy-MM-dd HH:mm:ss') AS scheduled,
           tailnum, dest, CAST(dep_delay AS INT) AS dep_delay, CAST(arr_delay AS INT) AS arr_delay,
           CAST(distance AS INT) AS distance
    FROM reported WHERE origin <> 'END'
"""
_DELAYS = f"""
    SELECT substring(scheduled, 1, 10) AS day, origin, count(*) AS flights, count(*) - count(dep_delay) AS cancelled,
           coalesce(sum(dep_delay), 0) AS delay_minutes, max(dep_delay) AS worst_delay
    FROM ({_FLIGHTS}) GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One sink against the batch query. Rows are multisets: a row there twice is one ``repeated``.

    ``flights`` is what the sink adds up to. For the aggregate, ``lost`` and ``repeated`` are rows of it, not flights.
    """

    sink: str
    rows_expected: int
    rows: int
    flights_expected: int
    flights: int
    lost: int
    repeated: int
    examples: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return self.lost == 0 and self.repeated == 0 and self.flights == self.flights_expected


def compare(
    sink: str, expected: Iterable[tuple[Any, ...]], found: Iterable[tuple[Any, ...]], count: int | None
) -> Comparison:
    """``count`` is the column that holds a row's number of flights; None: each row is one."""
    wanted, there = Counter(expected), Counter(found)
    lost, repeated = wanted - there, there - wanted

    def flights(rows: Counter[tuple[Any, ...]]) -> int:
        return sum(times if count is None else int(row[count]) * times for row, times in rows.items())

    shown = [f"lost {row}" for row in list(lost)[:3]] + [f"repeated {row}" for row in list(repeated)[:3]]
    return Comparison(
        sink,
        wanted.total(),
        there.total(),
        flights(wanted),
        flights(there),
        lost.total(),
        repeated.total(),
        tuple(shown),
    )


def stored_flights(database: Path) -> list[tuple[Any, ...]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        return connection.execute(
            "SELECT carrier, flight, origin, scheduled, tailnum, dest, dep_delay, arr_delay, distance FROM flights "
            "WHERE origin <> 'END'"
        ).fetchall()


def verify(source: Path, output: Path) -> list[Comparison]:
    """Both sinks of ``examples/flights.py``. Starts a Spark session of its own and stops it."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("verify")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    schema = (
        "scheduled TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, dep_delay INT, "
        "arr_delay INT, distance INT"
    )
    spark.read.schema(schema).option("header", "true").csv(str(source)).createOrReplaceTempView("reported")
    delays = spark.read.parquet(str(output / "delays"))
    compared = [
        compare("delays", _rows(spark.sql(_DELAYS)), _rows(delays), 2),
        compare("flights", _rows(spark.sql(_FLIGHTS)), _kept_flights(spark, output), None),
    ]
    spark.stop()
    return compared


def _kept_flights(spark: Any, output: Path) -> list[tuple[Any, ...]]:
    """From SQLite, or from the parquet files that stand in for it in an object store."""
    if not (output / "flights").is_dir():
        return stored_flights(output / "flights.db")
    spark.read.parquet(str(output / "flights")).createOrReplaceTempView("kept")
    return _rows(spark.sql(_FLIGHTS.replace("reported", "kept")))


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    table = frame.toArrow()  # a third of a million rows one by one would take longer than the query
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def verify_apart(source: Path, output: Path, log: Path) -> list[Comparison]:
    """``verify`` in a process of its own; what Spark says goes to ``log``."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_SUBMIT", "UNDERSTUDY_"))
    }
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "testkit.comparison", "--input", str(source), "--output", str(output)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=clean,
            cwd=Path(__file__).resolve().parent.parent,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise SystemExit(f"testkit: the comparison itself failed; see {log}")
    return [Comparison(**{**found, "examples": tuple(found["examples"])}) for found in json.loads(done.stdout)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the sinks of examples/flights.py with one batch query.")
    parser.add_argument("--input", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    options = parser.parse_args()
    compared = verify(options.input, options.output)
    print(json.dumps([asdict(each) for each in compared]))
    return 0 if all(each.same for each in compared) else 1


if __name__ == "__main__":
    sys.exit(main())
