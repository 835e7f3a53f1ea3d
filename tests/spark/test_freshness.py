"""A table that is overwritten while standbys wait: what they lead with is what a cold start would lead with."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.replicas import Replicas, events, said
from tests.spark.test_driver_outdated import overwrite

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
names = spark.read.parquet("names")
lines = spark.readStream.text("in").withColumnRenamed("value", "k")
query = lines.join(names, "k", "left").writeStream.format("json").option("checkpointLocation", "checkpoint")
query.trigger(processingTime="100 milliseconds").start("out").awaitTermination()
"""


def rows(home: Path) -> list[tuple[str, str]]:
    found = [json.loads(line) for part in (home / "out").glob("*.json") for line in part.read_text().splitlines()]
    return sorted((row["k"], row["name"]) for row in found)


def feed(home: Path, name: str) -> None:
    (home / f".{name}").write_text(f"{name}\n")
    (home / f".{name}").rename(home / "in" / f"{name}.txt")


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    monkeypatch.setenv("UNDERSTUDY_LOG", "json")
    overwrite(tmp_path, a="old", b="old", c="old")
    return Replicas(tmp_path, SCRIPT)


def two_of_them(replicas: Replicas, *options: str) -> None:
    feed(replicas.home, "a")
    for _ in range(2):
        replicas.start(*options)
    replicas.wait_for("the first row", lambda: rows(replicas.home) == [("a", "old")])
    waits = "held" if "off" in options else "rehearsed"
    replicas.wait_for("a standby", lambda: any(each[waits] for each in standbys(replicas)))


def another_leads_with_the_new_table(replicas: Replicas) -> None:
    os.kill(replicas.leader(), signal.SIGKILL)
    feed(replicas.home, "b")
    replicas.wait_for("a row with the new name", lambda: rows(replicas.home) == [("a", "old"), ("b", "new")])


def standbys(replicas: Replicas) -> list[dict[str, Any]]:
    return [each for each in replicas.status()["replicas"] if each["role"] == "standby"]


def test_a_takeover_on_what_was_overwritten_meanwhile_starts_the_script_once_more_and_costs_no_restart(
    replicas: Replicas,
) -> None:
    home = replicas.home
    try:
        two_of_them(replicas, "--restart-attempts", "0", "--rehearse", "off")
        overwrite(home, a="new", b="new", c="new")
        another_leads_with_the_new_table(replicas)
        assert [text.partition(":")[0] for text in said(home, "restart-for-stale-snapshot")] == [
            "a file or table is missing"
        ]
        assert said(home, "driver-died") == []
        assert replicas.status()["status"] == "RUNNING"
    finally:
        replicas.stop()


def test_a_standby_that_has_noticed_leads_with_the_new_table_at_once(replicas: Replicas) -> None:
    home = replicas.home
    try:
        two_of_them(replicas, "--rehearse-every", "1")
        overwrite(home, a="new", b="new", c="new")
        replicas.wait_for("a standby that begins again", lambda: said(home, "restart-stale-standby") != [])
        assert said(home, "restart-stale-standby")[0].endswith("/names has changed since the script read it")
        begun = next(each for each in events(home) if each.event == "restart-stale-standby")
        replicas.wait_for(
            "its rehearsal",
            lambda: any(
                each.event == "rehearsed" and each.log == begun.log and each.at > begun.at for each in events(home)
            ),
        )
        another_leads_with_the_new_table(replicas)
        assert said(home, "restart-for-stale-snapshot") == []
    finally:
        replicas.stop()


def test_standbys_run_again_for_their_age_one_at_a_time_and_the_last_rehearsed_one_stays(replicas: Replicas) -> None:
    home = replicas.home
    try:
        two_of_them(replicas, "--standby-max-age", "31")
        replicas.start("--standby-max-age", "31")
        replicas.wait_for("both to have begun again", lambda: len(said(home, "restart-stale-standby")) >= 2)
        first = re.fullmatch(r"the script began (\d+) s ago", said(home, "restart-stale-standby")[0])
        assert first is not None
        assert int(first.group(1)) >= 27, "an age less up to a tenth of it"
        assert any(each["rehearsed"] for each in standbys(replicas))
        assert said(home, "standby-ended") == []
    finally:
        replicas.stop()
