"""Machines that share nothing but a bucket: network namespaces of this one, of which one is cut off and another one is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit import s3
from testkit.hosts import SERVER, Host, hosts, why_not
from tests.contract.backends import PATIENT, import_path

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

CONTENDER = Path(__file__).with_name("contender.py")


class Machine:
    """A host with one contender on it, and what that has said."""

    def __init__(self, host: Host, port: int, directory: Path) -> None:
        self.host, self.said = host, directory / f"{host.name}.jsonl"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(import_path())}
        command = host.command(sys.executable, str(CONTENDER), SERVER, str(port), "ha", host.name)
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output)

    def heard(self, what: str) -> list[dict[str, Any]]:
        lines = self.said.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in events if event["what"] == what]

    @property
    def epochs(self) -> list[int]:
        return [event["epoch"] for event in self.heard("granted")]


@contextmanager
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    with s3.server(tmp_path, "") as port, hosts(2) as made:
        started = [Machine(host, port, tmp_path) for host in made]
        try:
            yield started
        finally:
            for each in started:
                each.host.kill()
                each.process.wait()


def until(what: str, condition: Any) -> None:
    end = time.monotonic() + PATIENT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def test_a_machine_that_is_cut_off_closes_before_another_leads_and_a_lost_one_is_followed(tmp_path: Path) -> None:
    with machines(tmp_path) as both:
        until("a leader", lambda: any(each.epochs for each in both))
        first, second = sorted(both, key=lambda each: not each.epochs)
        assert second.epochs == []

        first.host.cut()
        until("a leader on the other machine", lambda: second.epochs)
        assert second.epochs[0] > first.epochs[-1]
        until("word of its gate", lambda: first.heard("closed"))
        assert first.heard("closed")[-1]["deadline"] < second.heard("granted")[0]["at"]
        assert len(first.epochs) == 1

        first.host.repair()
        until("word of the other leader", lambda: first.heard("lost"))
        assert first.process.poll() is None

        second.host.kill()
        until("a leader on the first machine", lambda: len(first.epochs) == 2)
        assert first.epochs[1] > second.epochs[-1]
        assert not second.host.pids()
