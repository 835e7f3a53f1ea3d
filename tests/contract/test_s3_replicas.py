"""Replicas as users start them, with ``--ha s3``, on hosts that share nothing else. Their script starts no Spark, which is not what is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit import s3
from testkit.command import confs
from testkit.hosts import SERVER, Host, hosts, why_not
from tests.contract.backends import PATIENT, import_path

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SCRIPT = "import time\nwhile True:\n    time.sleep(1)\n"
PROGRAM = (sys.executable, "-m", "understudy.cli.main")


class Replica:
    """One on ``host``, whose disk is its own."""

    def __init__(self, host: Host, port: int, home: Path) -> None:
        self.host, self.log = host, home / f"{host.name}.log"
        words = ["--cluster-id", "flights", "--profile", "fast", "--ha-dir", str(home / host.name)]
        command = host.command(*PROGRAM, "run", *words, *reached(port, SERVER), "job.py")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(import_path())}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)


def reached(port: int, host: str = "127.0.0.1") -> list[str]:
    return ["--ha", "s3", "--ha-address", f"s3a://{s3.BUCKET}/ha", *confs(s3.spark_settings(port, host))]


@contextmanager
def replicas(home: Path) -> Iterator[tuple[list[Replica], int]]:
    (home / "job.py").write_text(SCRIPT)
    with s3.server(home, "") as port, hosts(2) as made:
        started = [Replica(host, port, home) for host in made]
        try:
            yield started, port
        finally:
            for each in started:
                each.host.kill()
                each.process.wait()


def asked(port: int, what: str, *words: str) -> tuple[int, dict[str, Any]]:
    command = [*PROGRAM, what, *reached(port), *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"text": done.stderr}


def led_by(port: int, started: Sequence[Replica]) -> tuple[Replica | None, int]:
    """Which replica leads, and its epoch."""
    code, shown = asked(port, "status")
    pids = {each["pid"] for each in shown["replicas"] if each["holder"] == shown["leader"]} if code == 0 else set()
    leading = [each for each in started if pids & set(each.host.pids())]
    return (leading[0], int(shown["epoch"])) if leading else (None, 0)


def until(what: str, condition: Callable[[], bool], started: Sequence[Replica]) -> None:
    end = time.monotonic() + PATIENT
    while not condition():
        assert time.monotonic() < end, "\n".join([what, *(each.log.read_text() for each in started)])
        time.sleep(0.2)


def test_replicas_follow_a_machine_that_is_cut_off_and_one_that_is_lost_and_take_requests(tmp_path: Path) -> None:
    with replicas(tmp_path) as (both, port):

        def follows(one: Replica) -> bool:
            leading, _ = led_by(port, both)
            return leading is not None and leading is not one

        until("a leader", lambda: led_by(port, both)[0] is not None, both)
        first, epoch = led_by(port, both)
        assert first is not None
        second = next(each for each in both if each is not first)
        until("a standby", lambda: len(asked(port, "status")[1]["replicas"]) == 2, both)

        first.host.cut()
        until("a leader on the other machine", lambda: follows(first), both)
        assert led_by(port, both)[1] > epoch
        first.host.repair()
        until("word of the other leader", lambda: "lost" in first.log.read_text(), both)

        epoch = led_by(port, both)[1]
        second.host.kill()
        until("a leader on the first machine", lambda: follows(second), both)
        assert led_by(port, both)[1] > epoch
        assert first.process.poll() is None

        code, answer = asked(port, "suspend", "--timeout", "1")
        assert code == 0, answer
        assert asked(port, "status")[1]["status"] == "SUSPENDED"
