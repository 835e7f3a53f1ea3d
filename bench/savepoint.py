"""What a savepoint of much state costs: how long the job stands still, how long the command takes, and what is asked of a bucket.

The report has the form of a table of docs/measured. ``s3a``: checkpoints and HA storage are in one bucket of the tests' S3 server, on this
machine, behind a proxy that counts.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testkit import reports, s3
from testkit.command import confs, understudy
from testkit.deployment import Deployment
from testkit.places import REPOSITORY

STORES = {"local": "a local disk", "s3a": "one bucket, `s3a://`"}
#: Bytes of a row, which is a key of the state as it is, and batches in which they are read.
ROW, BATCHES = 8192, 8
#: Seconds for the rows to be read.
PATIENCE_S = 240.0
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

SCRIPT = """
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
rows = spark.readStream.option("maxFilesPerTrigger", "1").text("in").dropDuplicates(["value"])
lengths = rows.select(F.length("value").alias("length"))
lengths.writeStream.format("parquet").queryName("rows").start("out")
spark.streams.awaitAnyTermination()
"""


class Failed(Exception):
    """The rows were not read in time, or the savepoint was refused."""


@dataclass(slots=True)
class Job:
    """One job in ``home``, whose state and savepoints are in ``store``; ``files`` is where their files can be looked at."""

    home: Path
    store: str
    options: Sequence[str]
    files: Path
    proxy: s3.S3Proxy | None = None
    deployment: Deployment = field(init=False)

    def __post_init__(self) -> None:
        environment = {
            "PYTHONPATH": str(REPOSITORY / "hooks"),
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        self.deployment = Deployment(self._command, 1, self.home / "logs", environment)

    def _command(self, _: int) -> list[str]:
        places = ("--ha-storage", f"{self.store}/ha", "--checkpoints", f"{self.store}/checkpoints")
        words = [*understudy(), "run", "--ha-dir", str(self.home / "ha"), "--cluster-id", "rows", *places]
        spark = ("--driver-memory", "2g", "--conf", "spark.ui.enabled=false", "--conf", _provider())
        run = [*words, *spark, *self.options, "job.py"]
        return ["env", "-C", str(self.home), *run]

    def feed(self, size: int) -> None:
        """Rows that no compression makes smaller."""
        (self.home / "in").mkdir(parents=True)
        (self.home / "job.py").write_text(SCRIPT)
        for number in range(BATCHES):
            with (self.home / "in" / f"{number}.txt").open("wb") as file:
                for _ in range(size // BATCHES // ROW):
                    file.write(base64.b64encode(os.urandom(ROW * 3 // 4)) + b"\n")

    def wait_until_read(self) -> None:
        last = self.files / "checkpoints" / "rows" / "commits" / str(BATCHES - 1)
        end = time.monotonic() + PATIENCE_S
        while not last.exists():
            if time.monotonic() > end:
                raise Failed(f"not read within {PATIENCE_S:.0f} s; see {self.home / 'logs'}")
            time.sleep(0.2)

    def savepoint(self) -> dict[str, float]:
        """Raises ``Failed``."""
        since = len(self.proxy.seen) if self.proxy is not None else 0
        began = time.monotonic()
        command = [*understudy(), "savepoint", "--ha-dir", str(self.home / "ha"), "--cluster-id", "rows", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        if done.returncode != 0:
            raise Failed(done.stdout + done.stderr)
        found = told(json.loads(done.stdout)["text"])
        if self.proxy is not None:
            verbs = Counter(line.split(" ", 1)[0] for line in self.proxy.seen[since:])
            found.update({f"requests {verb}": count for verb, count in sorted(verbs.items())})
        return {**found, "command": round(took, 2)}


def told(text: str) -> dict[str, float]:
    """What the answer says. Raises ``Failed`` for another text."""
    found = re.search(
        r"(\d+) files(?:, (\d+) of them copied within the store)?, (\d+) bytes .* held for ([\d.]+) s, ([\d.]+) s", text
    )
    if found is None:
        raise Failed(text)
    files, within, size, held, copied = found.groups()
    return {
        "files": int(files),
        "within": int(within or 0),
        "bytes": int(size),
        "held": float(held),
        "copied": float(copied),
    }


def _provider() -> str:
    return f"spark.sql.streaming.stateStore.providerClass={ROCKSDB}"


@contextmanager
def job(store: str, home: Path) -> Iterator[Job]:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    if store == "local":
        yield Job(home, str(home / "store"), (), home / "store")
        return
    with s3.server(home) as port, s3.S3Proxy(port).running() as proxy:
        settings = {**s3.spark_settings(proxy.port), "spark.driver.extraClassPath": f"{s3.s3a_jars()}/*"}
        yield Job(home, f"s3a://{s3.BUCKET}", confs(settings), home / "s3" / s3.BUCKET, proxy)


def measured(store: str, home: Path, size: int, times: int) -> list[dict[str, float]]:
    with job(store, home) as one:
        one.feed(size)
        one.deployment.start()
        try:
            one.wait_until_read()
            return [one.savepoint() for _ in range(times)]
        finally:
            one.deployment.stop()


def table(found: Mapping[str, Sequence[Mapping[str, float]]], size: int) -> dict[str, Any]:
    """As docs/measured has it. ``found``: by store, what each savepoint came to."""
    names = {
        "held": ("batches are held, the job stands still", "s"),
        "copied": ("of that, files are copied", "s"),
        "command": ("`understudy savepoint`, with its proof", "s"),
        "bytes": ("bytes copied", "MB"),
        "files": ("copied", "files"),
        "within": ("of them by the store itself", "files"),
    }
    verbs = sorted({key for each in found.values() for one in each for key in one if key.startswith("requests ")})
    names.update(
        {verb: (f"{verb.removeprefix('requests ')} requests of all that ran meanwhile", "requests") for verb in verbs}
    )
    rows = [
        {"name": name, "cells": [_figure(key, each, unit) for each in found.values()]}
        for key, (name, unit) in names.items()
    ]
    return {
        "title": "A savepoint of much state",
        "about": f"One query with {size / 1e9:.2f} GB of rows as its state in RocksDB, without changelog, that are read before."
        " The bucket is the S3 server of the tests, which copies every byte on the same disk, behind a proxy that counts.",
        "command": "python -m bench.savepoint",
        **reports.provenance(),
        "trials": f"{min(map(len, found.values()))} per cell",
        "heading": "",
        "columns": [{"name": STORES[store]} for store in found],
        "rows": rows,
    }


def _figure(key: str, savepoints: Sequence[Mapping[str, float]], unit: str) -> dict[str, Any] | None:
    if not any(key in one for one in savepoints):
        return None  # that store has no such figure
    values = [one.get(key, 0) for one in savepoints]
    scaled = [round(each / 1e6) if unit == "MB" else each for each in values]
    return {"median": statistics.median(scaled), "min": min(scaled), "max": max(scaled), "unit": unit}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the rows that are the state")
    parser.add_argument("--times", type=int, default=3, help="savepoints of each")
    parser.add_argument("--out", type=Path, default=reports.OUT)
    options = parser.parse_args()
    out = reports.made(options.out)
    found = dict[str, list[dict[str, float]]]()
    for store in options.stores:
        found[store] = measured(store, out / "run" / "savepoint", options.bytes, options.times)
        sys.stdout.write(f"{store}: {json.dumps(found[store])}\n")
    reports.write(out / "savepoint.json", table(found, options.bytes))
    sys.stdout.write(f"written: {out / 'savepoint.json'}; as docs/measured/14-savepoint.json it is on the page\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
