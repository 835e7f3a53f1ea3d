"""A replica leads with services of a package that is really installed, in an environment of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from etcd_tests.environment import environment
from etcd_tests.server import running
from tests.spark.replicas import Replicas

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import time
import understudy
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
with understudy.current().step() as token:
    print("leads", token >> 32, flush=True)
time.sleep(3600)
"""


class Installed(Replicas):
    """Replicas that the environment's Python runs."""

    def __init__(self, home: Path, python: Path, address: str) -> None:
        super().__init__(home, SCRIPT)
        self.python, self.services = python, ["--ha", "etcd", "--ha-address", address, "--cluster-id", "flights"]

    def command(self, what: str) -> list[str]:
        return [str(self.python), "-m", "understudy.cli.main", what, *self.services]


def test_a_killed_leaders_lease_runs_out_and_the_other_machine_leads(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    with running(tmp_path / "etcd") as cluster:
        replicas = Installed(tmp_path / "job", environment(tmp_path / "venv"), f"{cluster.hosts}/understudy")

        def status() -> dict[str, Any]:
            code, said = replicas.ask("status")
            return said if code == 0 else {"replicas": [], "leader": None, "epoch": 0}

        try:
            first = replicas.start("--ha-dir", str(tmp_path / "machine-1"))
            replicas.wait_for("a leader", lambda: "leads 1" in replicas.logs())
            replicas.start("--ha-dir", str(tmp_path / "machine-2"))
            replicas.wait_for("a standby", lambda: len(status()["replicas"]) == 2)
            assert status()["epoch"] == 1
            os.killpg(first.pid, signal.SIGKILL)
            replicas.wait_for("the other one leads", lambda: "leads 2" in replicas.logs())
            code, said = replicas.ask("cancel")
            assert code == 0, said
        finally:
            replicas.stop()
