"""Machines that share nothing but a bucket: network namespaces of this one, of which one is cut off and another one is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from obstore import put

from testkit import observer, s3
from testkit.command import confs
from testkit.hosts import SERVER, Host, hosts, why_not
from tests.spark import quick
from understudy.s3.client import Prefix
from understudy.s3.settings import S3Settings

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

PATIENCE = 180.0
PLACE = f"s3a://{s3.BUCKET}"
SCRIPT = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
lines = spark.readStream.text("{PLACE}/in")
started = lines.writeStream.format("parquet").option("checkpointLocation", "{PLACE}/checkpoint")
started.trigger(processingTime="100 milliseconds").start("{PLACE}/out")
spark.streams.awaitAnyTermination()
"""


class Machines:
    """One replica on each host, with a disk of its own, and the bucket that all of them reach."""

    def __init__(self, home: Path, port: int) -> None:
        self.home, self.port, self.fed = home, port, 0
        self.processes: dict[Host, subprocess.Popen[bytes]] = {}
        (home / "job.py").write_text(SCRIPT)
        (home / "tmp").mkdir()
        settings = S3Settings(f"http://127.0.0.1:{port}", "us-east-1", path_style=True, key=s3.KEY, secret=s3.SECRET)
        self._bucket = Prefix(s3.BUCKET, "", settings, PATIENCE, retries=0, patience=PATIENCE)

    def confs(self, host: str) -> list[str]:
        return confs(s3.spark_settings(self.port, host))

    def start(self, host: Host) -> None:
        words = ["--profile", "fast", "--cluster-id", "flights", "--ha", "s3", "--ha-address", f"{PLACE}/ha"]
        spark = ["--master", "local[2]", "--driver-class-path", f"{s3.s3a_jars()}/*", *self.confs(SERVER)]
        spark += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
        disk = ["--ha-dir", str(self.home / host.name)]
        program = [sys.executable, "-m", "understudy.cli.main", "run"]
        with self.log(host).open("ab") as log:
            self.processes[host] = subprocess.Popen(
                host.command(*program, *disk, *words, *quick.submit_options(), *spark, "job.py"),
                cwd=self.home,
                env={**os.environ, "TMPDIR": str(self.home / "tmp")},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self) -> None:
        for host, process in self.processes.items():
            host.kill()
            process.wait()

    def log(self, host: Host) -> Path:
        return self.home / f"{host.name}.log"

    def status(self) -> dict[str, Any]:
        words = ["status", "--json", "--ha", "s3", "--ha-address", f"{PLACE}/ha", *self.confs("127.0.0.1")]
        command = [sys.executable, "-m", "understudy.cli.main", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {"replicas": [], "leader": None, "epoch": 0}

    def leader(self) -> Host:
        """The host whose supervisor leads."""
        shown = self.status()
        pid = next(int(each["pid"]) for each in shown["replicas"] if each["holder"] == shown["leader"])
        return next(host for host in self.processes if pid in host.pids())

    def stands_by(self, host: Host) -> bool:
        """Whether its replica has rehearsed and does not lead."""
        shown, pids = self.status(), host.pids()
        others = [each for each in shown["replicas"] if each["holder"] != shown["leader"]]
        return any(each["rehearsed"] and int(each["pid"]) in pids for each in others)

    def feed(self, lines: int = 5) -> None:
        data = "".join(f"{self.fed + number}\n" for number in range(lines)).encode()
        put(self._bucket.store, f"in/{self.fed}.txt", data)
        self.fed += lines

    def rows(self) -> Counter[str]:
        """What the sink's own log says is in the sink. The server keeps objects as files."""
        objects = self.home / "s3" / s3.BUCKET
        found: Counter[str] = Counter()
        for path in observer.files_logged(objects / "out" / "_spark_metadata"):
            found.update(pq.read_table(objects / path.removeprefix(f"{PLACE}/")).column("value").to_pylist())
        return found

    def exact(self) -> bool:
        return self.rows() == Counter(str(number) for number in range(self.fed))

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            logs = "\n".join(self.log(host).read_text(errors="replace")[-3000:] for host in self.processes)
            assert time.monotonic() < end, f"{what}: not within {PATIENCE:.0f} s\n{logs}"
            time.sleep(0.2)


def test_a_machine_that_is_cut_off_and_one_that_is_lost_cost_a_lease_and_no_row(tmp_path: Path) -> None:
    with hosts(2) as both, s3.server(tmp_path, "") as port:
        machines = Machines(tmp_path, port)
        try:
            _story(machines, both)
        finally:
            machines.stop()


def _story(machines: Machines, both: Sequence[Host]) -> None:
    machines.feed()  # before: a source that is not there is the script's error
    for host in both:
        machines.start(host)
    machines.wait_for("first rows", machines.exact)
    machines.wait_for("a standby that has rehearsed", lambda: any(map(machines.stands_by, both)))
    first, epoch = machines.leader(), machines.status()["epoch"]

    first.cut()
    for _ in range(3):
        machines.feed()
    machines.wait_for("rows after the cut", machines.exact)
    second = machines.leader()
    assert second is not first
    assert machines.status()["epoch"] > epoch

    first.repair()
    machines.wait_for("the machine that was cut off as a standby", lambda: machines.stands_by(first))
    machines.feed()
    machines.wait_for("rows of the second leader", machines.exact)
    epoch = machines.status()["epoch"]

    second.kill()
    for _ in range(3):
        machines.feed()
    machines.wait_for("rows after the loss", machines.exact)
    assert machines.leader() is first
    assert machines.status()["epoch"] > epoch
    assert not second.pids()
