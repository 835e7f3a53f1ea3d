"""How large the regions of a driver's heap are: Spark's own words for its memory decide, wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.supervisor.heap import regions

LARGE, SMALLER, THE_JVMS = "-XX:G1HeapRegionSize=8m", "-XX:G1HeapRegionSize=4m", ""


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("512m", SMALLER),
        ("1023", SMALLER),
        ("1048575k", SMALLER),
        ("1g", LARGE),
        ("1024", LARGE),
        ("1G", LARGE),
        ("15gb", LARGE),
        ("16g", THE_JVMS),
        ("1t", THE_JVMS),
        ("much", LARGE),
    ],
)
def test_by_the_drivers_memory(memory: str, expected: str) -> None:
    assert regions(("--driver-memory", memory), {}) == expected
    assert regions((f"--conf=spark.driver.memory={memory}",), {}) == expected


def test_wherever_it_is_said(tmp_path: Path) -> None:
    assert regions((), {}) == LARGE, "Spark's default is 1g"
    assert regions((), {"SPARK_DRIVER_MEMORY": "512m"}) == SMALLER
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 32g\n")
    environ = {"SPARK_CONF_DIR": str(tmp_path), "SPARK_DRIVER_MEMORY": "512m"}
    assert regions((), environ) == THE_JVMS
    assert regions(("--driver-memory", "2g", "--conf", "spark.driver.memory=32g"), environ) == LARGE
