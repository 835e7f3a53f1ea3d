"""Rehearsals whose tasks run in other JVMs, which know of the overlay only what stands in its path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.spark43, pytest.mark.long]


def test_executors_see_the_leaders_state_and_write_to_scratch_only(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.executors_stage", str(tmp_path)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert [each["how"] for each in report["rounds"]] == ["live"] * 3
    assert all(each["rows"] > 0 for each in report["rounds"])
    assert report["unchanged"]
    assert report["left"] == []
