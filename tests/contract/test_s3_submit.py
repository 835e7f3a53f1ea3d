"""``understudy submit`` and ``understudy run --submitted`` as users start them, on a real S3 server. The script starts no Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testkit import s3
from testkit.command import confs
from tests.contract.backends import PATIENT, import_path
from understudy.supervisor.submitted import WAITS

pytestmark = pytest.mark.slow

SCRIPT = """
import sys, time
from told import VERSION
open(sys.argv[1], "a").write(VERSION)
while True:
    time.sleep(1)
"""
PROGRAM = (sys.executable, "-m", "understudy.cli.main")


@dataclass
class Site:
    """Machines that share nothing but the bucket. Its keys are in the environment, for they are never submitted."""

    home: Path
    port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        settings = {name: value for name, value in s3.spark_settings(self.port).items() if not name.endswith(".key")}
        place = ["--ha", "s3", "--ha-address", f"s3a://{s3.BUCKET}/ha", "--cluster-id", "flights"]
        return [*place, *confs(settings)]

    @property
    def storage(self) -> list[str]:
        return ["--ha-storage", f"s3a://{s3.BUCKET}/storage"]

    @property
    def environment(self) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": s3.KEY, "AWS_SECRET_ACCESS_KEY": s3.SECRET}
        return {**os.environ, **keys, "PYTHONPATH": os.pathsep.join(import_path())}

    def start(self) -> subprocess.Popen[bytes]:
        machine = self.home / f"machine-{len(self.started)}"
        machine.mkdir()
        words = [*self.storage, "--submitted", "--profile", "fast", "--ha-dir", str(machine / "ha")]
        with (self.home / f"{machine.name}.log").open("wb") as log:
            command = [*PROGRAM, "run", *words, *self.words]
            started = subprocess.Popen(command, cwd=machine, env=self.environment, stdout=log, stderr=log)
        self.started.append(started)
        return started

    def ask(self, what: str, *words: str) -> tuple[int, dict[str, Any]]:
        command = [*PROGRAM, what, "--json", *words]
        done = subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else {"text": done.stderr}

    def submit(self, version: str) -> dict[str, Any]:
        (self.home / "job.py").write_text(SCRIPT)
        (self.home / "told.py").write_text(f"VERSION = {version!r}\n")
        words = [*self.storage, *self.words, "--py-files", "told.py", "job.py", str(self.ran)]
        code, told = self.ask("submit", *words)
        assert code == 0, told
        return told

    @property
    def ran(self) -> Path:
        return self.home / "ran"

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENT
        while not condition():
            logs = [path.read_text()[-3000:] for path in sorted(self.home.glob("*.log"))]
            assert time.monotonic() < end, "\n".join([what, *logs])
            time.sleep(0.2)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with s3.server(tmp_path) as port:
        made = Site(tmp_path, port)
        yield made
        for each in made.started:
            each.kill()
            each.wait()


def test_a_replica_waits_runs_what_comes_and_the_next_one_runs_what_was_submitted_since(site: Site) -> None:
    first = site.start()

    def waits() -> bool:
        return [each["reason"] for each in site.ask("status", *site.words)[1].get("replicas", [])] == [WAITS]

    site.until("one that waits", waits)
    assert site.submit("one ")["submission"] == 1
    site.until("the first version", lambda: site.ran.exists() and site.ran.read_text() == "one ")
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENT) == 0

    assert site.submit("two ")["submission"] == 2
    site.start()
    site.until("the second version", lambda: site.ran.read_text() == "one two ")
    code, told = site.ask("gc", "--remove", *site.storage, *site.words)
    assert code == 0, told
    assert [each["name"] for each in told["leftovers"]] == ["artifacts/flights/flights/1/"]
