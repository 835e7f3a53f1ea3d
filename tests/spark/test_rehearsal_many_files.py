"""A file source of ten thousand files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.rehearsal_stage import Stage, contents, counted, play, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


def test_ten_thousand_files_are_neither_read_again_nor_in_the_way_of_the_next_batch(tmp_path: Path) -> None:
    stage = Stage(spark_session(), tmp_path)
    stage.feed(10_000, rows=1)
    with stage.rehearsal(stage.writer(counted, maxFilesPerTrigger="100000")) as rehearsal:
        first = play(rehearsal)
    stage.lead(stage.writer(counted, maxFilesPerTrigger="100000"))
    with stage.rehearsal(stage.writer(counted, maxFilesPerTrigger="100000")) as rehearsal:
        all_at_once = play(rehearsal)
    stage.feed()
    stage.lead(stage.writer(counted, maxFilesPerTrigger="100000"))
    before = contents(stage.checkpoint)
    with stage.rehearsal(stage.writer(counted, maxFilesPerTrigger="100000")) as rehearsal:
        next_one = play(rehearsal)

    assert (first["how"], first["rows"]) == ("throwaway", 1)
    assert all_at_once["how"] == "synthetic"
    assert (next_one["how"], next_one["rows"]) == ("live", 40)
    assert contents(stage.checkpoint) == before
