"""``understudy run`` as a user starts it: takeovers between real replicas, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from understudy.documents import codec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PATIENCE = 180.0

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
lines = spark.readStream.text("in")
lines.writeStream.format("parquet").option("checkpointLocation", "checkpoint").trigger(processingTime="100 milliseconds").start("out")
spark.streams.awaitAnyTermination()
"""


class Replicas:
    """Replicas of one script in one directory, which is also where they run."""

    def __init__(self, home: Path, script: str = SCRIPT) -> None:
        self.home = home
        self.fed = 0
        self.started: list[subprocess.Popen[bytes]] = []
        (home / "job.py").write_text(script)
        (home / "in").mkdir()
        self.temporary = home / "tmp"
        self.temporary.mkdir()

    def start(self, *options: str, master: str = "local[2]") -> subprocess.Popen[bytes]:
        with (self.home / f"replica-{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.command("run"), "--profile", "fast", *options, "--master", master, "job.py"],
                cwd=self.home,
                env={**os.environ, "TMPDIR": str(self.temporary)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def command(self, what: str) -> list[str]:
        return [sys.executable, "-m", "understudy.cli.main", what, "--ha-dir", str(self.home / "ha")]

    def status(self) -> dict[str, Any]:
        done = subprocess.run([*self.command("status"), "--json"], capture_output=True, text=True, check=False)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {"replicas": [], "leader": None, "epoch": 0}

    def leader(self) -> int:
        """The pid of the leader's supervisor."""
        shown = self.status()
        return next(int(each["pid"]) for each in shown["replicas"] if each["holder"] == shown["leader"])

    def feed(self, lines: int = 5) -> None:
        part = self.home / f".{self.fed}"
        part.write_text("".join(f"{self.fed + number}\n" for number in range(lines)))
        part.rename(self.home / "in" / f"{self.fed}.txt")
        self.fed += lines

    def rows(self) -> Counter[str]:
        """What the sink's own log says is in the sink."""
        found: Counter[str] = Counter()
        for entry in (self.home / "out" / "_spark_metadata").glob("[0-9]*"):
            if entry.suffix in {"", ".compact"}:
                for line in entry.read_text().splitlines()[1:]:
                    path = Path(json.loads(line)["path"].removeprefix("file://"))
                    found.update(pq.read_table(path).column("value").to_pylist())
        return found

    def wait_for(self, what: str, condition: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what}: not within {PATIENCE:.0f} s\n{self.logs()}"
            time.sleep(0.1)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.home.glob("replica-*.log")))

    def stop(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path)
    yield made
    made.stop()


def everything_once(replicas: Replicas) -> bool:
    return sum(replicas.rows().values()) >= replicas.fed


def test_a_standby_takes_over_from_a_killed_leader_and_a_stopped_one_and_every_row_is_there_once(
    replicas: Replicas,
) -> None:
    replicas.start()
    replicas.start()
    replicas.feed()
    replicas.wait_for("first rows", lambda: everything_once(replicas))
    replicas.wait_for("a rehearsed standby", lambda: any(each["rehearsed"] for each in replicas.status()["replicas"]))
    first, epoch = replicas.leader(), replicas.status()["epoch"]

    os.kill(first, signal.SIGKILL)  # its driver and its JVM die with it
    for _ in range(5):
        replicas.feed()
    replicas.wait_for("rows after SIGKILL", lambda: everything_once(replicas))
    assert replicas.status()["epoch"] > epoch
    second, epoch = replicas.leader(), replicas.status()["epoch"]
    assert second != first

    replicas.start()
    os.kill(second, signal.SIGTERM)
    for _ in range(5):
        replicas.feed()
    replicas.wait_for("rows after SIGTERM", lambda: everything_once(replicas))
    assert replicas.status()["epoch"] > epoch
    stopped = next(process for process in replicas.started if process.pid == second)
    assert stopped.wait(20) == 0
    assert replicas.rows() == Counter(str(number) for number in range(replicas.fed))

    assert sum(1 for _ in replicas.temporary.glob("*/blockmgr-*")) >= 1, "Spark's blocks are not where this looks"
    replicas.stop()
    assert [path.name for path in replicas.temporary.iterdir()] == [], "what killed drivers leave goes with them"


def refused(replicas: Replicas, *options: str) -> tuple[int, str]:
    process = replicas.start(*options)
    code = process.wait(PATIENCE)
    said = (replicas.home / f"replica-{len(replicas.started) - 1}.log").read_text()
    return code, next(line for line in reversed(said.splitlines()) if line.startswith("understudy: "))


def test_a_script_that_never_starts_a_query_is_refused(tmp_path: Path) -> None:
    replicas = Replicas(tmp_path, "print('nothing to see')\n")
    code, said = refused(replicas)
    assert code == 6
    assert "without starting a query" in said


def test_a_checkpoint_that_another_cluster_has_claimed_is_refused(replicas: Replicas) -> None:
    replicas.feed()
    first = replicas.start("--cluster-id", "one")
    replicas.wait_for("first rows", lambda: everything_once(replicas))
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    code, said = refused(replicas, "--cluster-id", "two")
    assert code == 5
    assert "checkpoint" in said
    assert "Use another checkpoint location or cluster id" in said


def test_a_finished_job_is_not_run_again(tmp_path: Path) -> None:
    script = SCRIPT.replace(
        "spark.streams.awaitAnyTermination()", "q = spark.streams.active[0]; q.processAllAvailable(); q.stop()"
    )
    replicas = Replicas(tmp_path, script)
    replicas.feed()
    assert replicas.start().wait(PATIENCE) == 0, replicas.logs()
    assert replicas.rows() == Counter("01234")
    replicas.feed()
    assert replicas.start().wait(PATIENCE) == 0
    assert sum(replicas.rows().values()) == 5
    said = subprocess.run(replicas.command("resume"), capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert "--cluster-id: job job of cluster job below" in said.stderr
    assert "has FINISHED" in said.stderr


def test_a_failed_job_goes_on_where_it_was_once_somebody_has_mended_it_and_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    script = SCRIPT.replace(
        "spark.streams.await", "import os\nassert not os.path.exists('broken')\nspark.streams.await"
    )
    replicas = Replicas(tmp_path, script)
    replicas.feed()
    try:
        first = replicas.start()
        replicas.wait_for("first rows", lambda: everything_once(replicas))
        first.send_signal(signal.SIGTERM)
        assert first.wait(30) == 0
        broken.touch()
        assert replicas.start("--restart-attempts", "1").wait(PATIENCE) == 1
        assert replicas.status()["status"] == "FAILED"
        broken.unlink()
        replicas.feed()
        assert replicas.start().wait(PATIENCE) == 1, "a job that has FAILED does not start by itself"
        assert "is FAILED" in replicas.logs()
        assert "understudy resume lets it run again" in replicas.logs()

        said = subprocess.run(replicas.command("resume"), capture_output=True, text=True, check=False)
        assert (said.returncode, "may run again" in said.stdout) == (0, True), said.stderr
        replicas.start()
        replicas.wait_for("the rest", lambda: everything_once(replicas))
        assert replicas.rows() == Counter(str(number) for number in range(replicas.fed))
        again = subprocess.run(replicas.command("resume"), capture_output=True, text=True, check=False)
        assert (again.returncode, "nothing was changed" in again.stdout) == (0, True)
    finally:
        replicas.stop()


def test_a_job_document_nobody_can_read_stops_a_replica_and_stays_as_it_is(replicas: Replicas) -> None:
    documents = replicas.home / "ha" / "job" / "documents"
    documents.mkdir(parents=True)
    torn = documents / "job-job@1"
    torn.write_bytes(codec.canonical({"version": 1}).encode()[:9])
    code, said = refused(replicas)
    assert code == 4
    assert "job-job" in said
    assert torn.read_bytes() == b'{"version'
