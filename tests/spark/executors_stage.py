"""``python -m tests.spark.executors_stage DIR``: rehearses with executors in JVMs of their own, and prints what came of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.spark.rehearsal_stage import Stage, contents, counted, play, spark_session


def main(root: Path) -> None:
    spark = spark_session("local-cluster[2,1,1024]")
    stage = Stage(spark, root)
    stage.feed(3)
    writer = stage.writer(counted)
    stage.lead(writer)
    before = contents(stage.checkpoint, stage.sink)
    with stage.rehearsal(writer) as rehearsal:
        rounds = [play(rehearsal) for _ in range(3)]
        left = [path.name for path in stage.scratch.glob("round-*")]
    report = {"rounds": rounds, "unchanged": contents(stage.checkpoint, stage.sink) == before, "left": left}
    spark.stop()
    sys.stdout.write(f"{json.dumps(report)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
