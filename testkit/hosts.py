"""Hosts that share nothing but a server: network namespaces of this machine, each with one cable to it. Needs root."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: Where hosts reach this machine, whichever cable they have.
SERVER = "10.77.0.1"


def why_not() -> str:
    """Why there can be no such hosts here; empty if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    tried = f"understudy-try-{os.getpid()}"  # tests of two files may ask at the same time
    try:
        done = _ip("netns", "add", tried, check=False)
    except FileNotFoundError:
        return "there is no ip(8): install iproute2"
    if done.returncode != 0:
        return f"no network namespaces: {done.stderr.strip()}"
    _ip("netns", "delete", tried, check=False)
    return ""


@dataclass(frozen=True, slots=True)
class Host:
    number: int

    @property
    def name(self) -> str:
        return f"understudy-{self.number}"

    @property
    def cable(self) -> str:
        """This machine's end."""
        return f"understudy{self.number}"

    def command(self, *words: str) -> list[str]:
        """``words``, to be run on this host."""
        return ["ip", "netns", "exec", self.name, *words]

    def cut(self) -> None:
        """Nothing comes through any more, and no end is told."""
        _ip("link", "set", self.cable, "down")

    def repair(self) -> None:
        _ip("link", "set", self.cable, "up")

    def pids(self) -> list[int]:
        return [int(pid) for pid in _ip("netns", "pids", self.name, check=False).stdout.split()]

    def kill(self) -> None:
        """SIGKILL for each process, until none is left: as when the power goes."""
        while pids := self.pids():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def lay_cable(self) -> None:
        here, there = f"10.77.{self.number}.1", f"10.77.{self.number}.2"
        _ip("netns", "add", self.name)
        _ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("addr", "add", f"{here}/24", "dev", self.cable)
        _ip("link", "set", self.cable, "up")
        _ip("-n", self.name, "addr", "add", f"{there}/24", "dev", "eth0")
        for each in ("lo", "eth0"):
            _ip("-n", self.name, "link", "set", each, "up")
        _ip("-n", self.name, "route", "add", "default", "via", here)

    def remove(self) -> None:
        self.kill()
        _ip("link", "delete", self.cable, check=False)
        _ip("netns", "delete", self.name, check=False)


@contextmanager
def hosts(count: int) -> Iterator[Sequence[Host]]:
    """They are gone afterwards, with all that ran on them. There is one set at a time on a machine; another one waits."""
    made = [Host(number + 1) for number in range(count)]
    with Path(tempfile.gettempdir(), "understudy-hosts.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for each in made:
            each.remove()  # what a killed run has left
        _ip("addr", "replace", f"{SERVER}/32", "dev", "lo")
        try:
            for each in made:
                each.lay_cable()
            yield made
        finally:
            for each in made:
                each.remove()
            _ip("addr", "delete", f"{SERVER}/32", "dev", "lo", check=False)


def _ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)
