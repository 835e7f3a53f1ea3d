"""Replicas of one script on this machine, started as a user starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from typer.testing import CliRunner

from testkit.observer import files_logged
from testkit.tails import Said, parse_event
from tests.spark import quick
from tests.spark.in_force import unfenced
from understudy.cli.main import app

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
        self._began = time.time()
        self.fed = 0
        self.started: list[subprocess.Popen[bytes]] = []
        (home / "job.py").write_text(script)
        (home / "in").mkdir()
        self.temporary = home / "tmp"
        self.temporary.mkdir()

    def start(self, *options: str, master: str = "local[2]", script: str = "job.py") -> subprocess.Popen[bytes]:
        """Without a ``script``, where one was submitted."""
        with (self.home / f"replica-{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *self.command("run"),
                    "--profile",
                    "fast",
                    *options,
                    *quick.submit_options(),
                    "--master",
                    master,
                    *([script] if script else []),
                ],
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

    def ask(self, what: str, *options: str) -> tuple[int, dict[str, Any]]:
        """The exit code, and what the command prints with ``--json``."""
        command = [*self.command(what), *options, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else {"text": done.stderr}

    def status(self) -> dict[str, Any]:
        """What the command prints; in this process, for a fresh one each time would take a processor from the replicas."""
        done = CliRunner().invoke(app, ["status", "--ha-dir", str(self.home / "ha"), "--json"])
        nothing: dict[str, Any] = {"replicas": [], "leader": None, "epoch": 0, "status": "", "endpoint": ""}
        return dict(json.loads(done.stdout)) if done.exit_code == 0 else nothing

    def leader(self) -> int:
        """The pid of the leader's supervisor, once there is one."""
        found: list[int] = []

        def known() -> bool:
            shown = self.status()
            found.extend(int(each["pid"]) for each in shown["replicas"] if each["holder"] == shown["leader"])
            return bool(found)

        self.wait_for("a leader", known)
        return found[0]

    def feed(self, lines: int = 5) -> None:
        part = self.home / f".{self.fed}"
        part.write_text("".join(f"{self.fed + number}\n" for number in range(lines)))
        part.rename(self.home / "in" / f"{self.fed}.txt")
        self.fed += lines

    def rows(self, sink: str = "out") -> Counter[str]:
        """What the sink's own log says is in the sink."""
        found: Counter[str] = Counter()
        for path in files_logged(self.home / sink / "_spark_metadata"):
            found.update(pq.read_table(path.removeprefix("file://")).column("value").to_pylist())
        return found

    def wait_for(self, what: str, condition: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what}: not within {PATIENCE:.0f} s\n{self.last_lines()}"
            time.sleep(0.1)

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.home.glob("replica-*.log")))

    def last_lines(self) -> str:
        """What the reader of a failure wants."""
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.home.glob("replica-*.log")))

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
        assert not unfenced(self.home, self._began), "the fence was not in force"


def events(home: Path) -> list[Said]:
    """All that the replicas have said, in order, where ``UNDERSTUDY_LOG`` is ``json``."""
    logs = [
        (path, line)
        for path in sorted(home.glob("replica-*.log"))
        for line in path.read_text(errors="replace").splitlines()
    ]
    found = [event for path, line in logs if (event := parse_event(path, line)) is not None]
    return sorted(found, key=lambda each: each.at)


def said(home: Path, event: str) -> list[str]:
    """The messages of an event in the logs of all replicas."""
    return [str(each.facts["message"]) for each in events(home) if each.event == event]


def everything_once(replicas: Replicas) -> bool:
    return sum(replicas.rows().values()) >= replicas.fed
