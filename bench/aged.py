"""A checkpoint as if a query had run for long: the logs of a file source and a file sink that Spark has compacted again and again.

Written in Spark's own formats, because 100,000 batches take hours: ``offsets`` and ``commits`` of the batches that Spark keeps, one
compacted file of the source's log and one of the sink's with an entry for each batch. The files that the entries name are gone, as they
are from a directory that is cleaned. Spark reads all of it at every start.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from testkit.observer import RETAINED


def age(checkpoint: Path, sink: Path, source: Path, batches: int) -> None:
    """``batches`` (a multiple of 10, after which Spark compacts) have been committed, each of one file into one file."""
    last = batches - 1
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    kept = range(max(0, batches - RETAINED), batches)
    seen = {"batchWatermarkMs": 0, "batchTimestampMs": 1_356_998_400_000, "conf": {}}
    _write(checkpoint / "offsets", {str(batch): [json.dumps(seen), json.dumps({"logOffset": batch})] for batch in kept})
    _write(checkpoint / "commits", {str(batch): [json.dumps({"nextBatchWatermarkMs": 0})] for batch in kept})
    read = [
        {"path": f"{source.as_uri()}/old-{batch:09d}.csv", "timestamp": 1_356_998_400_000 + batch, "batchId": batch}
        for batch in range(batches)
    ]
    _write(checkpoint / "sources" / "0", {f"{last}.compact": list(map(json.dumps, read))})
    written = [
        {
            "path": f"{sink.as_uri()}/part-00000-{uuid.UUID(int=batch)}-c000.snappy.parquet",
            "size": 12_000,
            "isDir": False,
            "modificationTime": 1_356_998_400_000 + batch,
            "blockReplication": 1,
            "blockSize": 33_554_432,
            "action": "add",
        }
        for batch in range(batches)
    ]
    _write(sink / "_spark_metadata", {f"{last}.compact": list(map(json.dumps, written))})


def _write(log: Path, entries: dict[str, list[str]]) -> None:
    log.mkdir(parents=True)
    for name, lines in entries.items():
        (log / name).write_text("\n".join(["v1", *lines]))
