"""Two replicas that share nothing but an ensemble of ZooKeeper, as on two machines, and the commands that find them there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testkit.zookeeper import Ensemble
from tests.contract.zookeeper import ZooKeeper, running
from tests.spark.replicas import PATIENCE, Replicas

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SCRIPT = """
import time
import understudy
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
with understudy.current().step() as token:
    print(f"leads {token >> 32}\\n", end="", flush=True)  # at once: the supervisor writes into the same log
time.sleep(3600)
"""


def command(backend: ZooKeeper, what: str, *words: str) -> subprocess.CompletedProcess[str]:
    base = [sys.executable, "-m", "understudy.cli.main", what, "--ha", "zookeeper", "--ha-address", backend.address()]
    return subprocess.run([*base, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)


def status(backend: ZooKeeper) -> dict[str, Any]:
    done = command(backend, "status", "--json")
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {"replicas": [], "leader": None, "epoch": 0}


def test_a_killed_leaders_lease_runs_out_and_the_other_machine_leads(tmp_path: Path) -> None:
    with running(tmp_path / "servers") as servers:
        _lead_and_take_over(tmp_path / "job", servers)


def _lead_and_take_over(home: Path, servers: Ensemble) -> None:
    home.mkdir()
    backend, replicas = ZooKeeper(servers), Replicas(home, SCRIPT)
    words = ["--ha", "zookeeper", "--ha-address", backend.address(), "--cluster-id", "flights"]
    try:
        first = replicas.start(*words, "--ha-dir", str(home / "machine-1"))
        replicas.wait_for("a leader", lambda: "leads 1" in replicas.logs())
        replicas.start(*words, "--ha-dir", str(home / "machine-2"))
        replicas.wait_for("a standby", lambda: len(status(backend)["replicas"]) == 2)
        assert status(backend)["epoch"] == 1
        os.killpg(first.pid, signal.SIGKILL)
        replicas.wait_for("the other one leads", lambda: "leads 2" in replicas.logs())
        assert not (home / "ha").exists()
        done = command(backend, "cancel", "--cluster-id", "flights")
        assert (done.returncode, f"in ZooKeeper {servers.hosts}" in done.stdout) == (0, True), done.stderr
        done = command(backend, "result")
        assert (done.returncode, "CANCELED" in done.stdout) == (0, True), done.stderr
    finally:
        replicas.stop()
        backend.close()
