"""A job that runs in a directory goes on in a bucket, and back: the claims in its checkpoint and its sink are followed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from testkit import s3
from testkit.command import confs
from tests.spark.replicas import SCRIPT, Replicas, everything_once
from understudy.cli.main import app
from understudy.errors import IdentityConflict
from understudy.fencing.claim import local_root_claim
from understudy.protocol.claim import Claim

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Moved:
    """One replica, now in a directory and now in a bucket."""

    def __init__(self, home: Path, port: int) -> None:
        # the same place from wherever a replica runs: services that share no disk ask for that
        self.replicas = Replicas(home, SCRIPT.replace('"checkpoint")', f'"{home}/checkpoint")'))
        self.confs = confs(s3.spark_settings(port))
        self.bucket = ["--ha", "s3", "--ha-address", f"s3a://{s3.BUCKET}/ha"]
        self.directory = ["--ha-dir", str(home / "ha")]

    def run(self, place: list[str]) -> None:
        """One replica leads until every line is in the sink, and ends."""
        store = self.confs if place is self.bucket else []
        process = self.replicas.start("--cluster-id", "flights", *place, *store)
        self.replicas.feed()
        self.replicas.wait_for("every line", lambda: everything_once(self.replicas))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, self.replicas.logs()

    def move(self, *words: str) -> None:
        done = CliRunner().invoke(
            app, ["claims", "move", "--cluster-id", "flights", *self.directory, *self.confs, *words]
        )
        assert done.exit_code == 0, done.exception

    def refused(self, place: list[str]) -> str:
        process = self.replicas.start("--cluster-id", "flights", *place)
        assert process.wait(60) == IdentityConflict.exit_code, self.replicas.logs()
        return self.replicas.logs()

    def claims(self) -> list[Claim]:
        found = [local_root_claim(self.replicas.home / each) for each in ("checkpoint", "out")]
        return [each for each in found if each is not None]

    def exact(self) -> bool:
        rows: dict[str, Any] = dict(self.replicas.rows())
        return rows == {str(number): 1 for number in range(self.replicas.fed)}


@pytest.mark.long
def test_a_job_goes_on_in_a_bucket_with_the_claims_that_it_has_made_in_a_directory(tmp_path: Path) -> None:
    with s3.server(tmp_path) as port:
        there = Moved(tmp_path, port)
        try:
            there.run(there.directory)
            before = there.claims()
            assert {each.lock for each in before} == {"file"}
            there.move("--to-ha", "s3", "--to-ha-address", f"s3a://{s3.BUCKET}/ha")
            assert "the job has moved to --ha s3 --lock s3" in there.refused(there.directory)
            there.run(there.bucket)
            after = there.claims()
            assert {each.lock for each in after} == {"s3"}
            assert min(each.token.epoch for each in after) > max(each.token.epoch for each in before)
            assert there.exact()
        finally:
            there.replicas.stop()


@pytest.mark.long
def test_there_and_back_again(tmp_path: Path) -> None:
    with s3.server(tmp_path) as port:
        there = Moved(tmp_path, port)
        try:
            there.run(there.directory)
            there.move("--to-ha", "s3", "--to-ha-address", f"s3a://{s3.BUCKET}/ha")
            there.run(there.bucket)
            there.move(*there.bucket, "--to-ha", "filesystem", "--to-ha-dir", str(tmp_path / "ha"))
            there.run(there.directory)
            assert {each.lock for each in there.claims()} == {"file"}
            assert there.exact()
        finally:
            there.replicas.stop()
