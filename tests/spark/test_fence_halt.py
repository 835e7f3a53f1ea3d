"""The halting thread: a driver ends itself at its deadlines, whether or not a supervisor is there to end it."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import sys
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from tests.doubles.pages import CLOSED, OPEN, REVOKED, STANDBY, GatePage, later, token
from tests.spark.fence_env import Driver, driver
from understudy.clock import NEVER, Instant, instant

pytestmark = pytest.mark.spark


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter between opening and reading
        return False


def gone(one: Driver, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while alive(one.pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(one.pid)


def stays(one: Driver, seconds: float = 0.6) -> bool:
    return not gone(one, seconds)


def test_at_the_kill_deadline_a_busy_driver_and_its_whole_session_end(tmp_path: Path) -> None:
    """The gate is not written again after the grant: the supervisor is frozen, or dead."""
    with driver(tmp_path) as one:
        # a worker that has left the process group and lost its parent: only its session still says whose it is
        script = "import os, time; os.setpgid(0, 0); os.fork() and os._exit(0); "
        script += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        one.jvm.java.lang.ProcessBuilder([sys.executable, "-c", script]).start().waitFor()
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        worker = int((tmp_path / "pid").read_text())
        one.gate.busy(1)
        one.gate.write(OPEN, token(1), close=later(0.2), kill=later(0.5))
        assert gone(one)
        one.process.wait(10)
        end = time.monotonic() + 10
        while alive(worker) and time.monotonic() < end:
            time.sleep(0.01)
        assert not alive(worker)
        (line,) = one.logged(op="halt")
        assert line["reason"] == "kill-deadline"


def test_a_revoked_driver_ends_with_86_and_a_parent_of_another_session_lives(tmp_path: Path) -> None:
    with driver(tmp_path, apart=True) as one:
        one.gate.write(REVOKED, token(1))
        assert one.process.wait(20) == 86
        assert one.logged(op="halt")[0]["reason"] == "revoked"


@pytest.mark.parametrize("clock", ["boottime", "monotonic"])
def test_either_clock_is_enough_to_end_it(tmp_path: Path, clock: str) -> None:
    with driver(tmp_path) as one:
        now = instant()
        past = Instant(
            now.boottime_ns if clock == "boottime" else NEVER.boottime_ns,
            now.monotonic_ns if clock == "monotonic" else NEVER.monotonic_ns,
        )
        one.gate.busy(1)
        one.gate.write(OPEN, token(1), close=later(0), kill=past)
        assert gone(one)


def test_a_driver_in_which_nothing_of_the_users_runs_is_parked_and_lives_until_the_park_deadline(
    tmp_path: Path,
) -> None:
    with driver(tmp_path) as one:
        past = instant()
        one.gate.write(CLOSED, token(1), close=past, kill=past, park=later(600))
        assert stays(one)
        assert one.state()["gate"]["state"] == "closed"
        one.gate.write(CLOSED, token(1), close=past, kill=past, park=later(0.1))
        assert gone(one)
        assert one.logged(op="halt")[0]["reason"] == "park-deadline"


def test_a_parked_driver_that_only_looks_at_its_gate_lives(tmp_path: Path) -> None:
    """Python counts itself busy before it looks at the gate, and takes it back when the gate is closed."""
    give_up = time.monotonic() + 120
    for attempt in itertools.count():
        (tmp_path / str(attempt)).mkdir()
        with driver(tmp_path / str(attempt)) as one:
            past = instant()
            one.gate.write(CLOSED, token(1), close=past, kill=past)
            longest = flicker(one.gate, seconds=2)
            if longest < 0.010:
                assert alive(one.pid)
                return
        # This process was descheduled while it counted as busy: it looks the same as user code that runs.
        assert time.monotonic() < give_up, "this machine is too busy to flicker"


def flicker(gate: GatePage, seconds: float) -> float:
    """Count as busy for 0.2 ms, off for 1 to 2 ms, and so on; the longest time, in seconds, that a busy one lasted really.

    Off at random: the thread's samples come at a steady beat, and two steady beats can keep step.
    """
    longest = 0.0
    end = time.monotonic() + seconds
    with Path(f"{gate.path}.activity").open("r+b") as file, mmap.mmap(file.fileno(), 64) as page:
        while time.monotonic() < end:
            begun = time.monotonic()
            page[0] = 1
            time.sleep(0.0002)
            page[0] = 0
            longest = max(longest, time.monotonic() - begun)
            time.sleep(random.uniform(0.001, 0.002))
    return longest


def test_a_torn_page_keeps_the_deadlines_it_had(tmp_path: Path) -> None:
    with driver(tmp_path) as one:
        one.gate.busy(1)
        one.gate.write(OPEN, token(1), close=later(2.5), kill=later(3))
        end = time.monotonic() + 2
        while "OPEN" not in last_seen(one):
            assert time.monotonic() < end, "the thread looks every 50 ms"
            time.sleep(0.01)
        one.gate.put(b"\xff", 20)
        assert gone(one)


def last_seen(one: Driver) -> str:
    """The page that the halting thread goes by."""
    jvm = one.jvm.java.lang
    (thread,) = (each for each in jvm.Thread.getAllStackTraces().keySet() if each.getName() == "understudy-halt")
    page = thread.getClass().getDeclaredField("last")
    page.setAccessible(True)
    return str(jvm.String.valueOf(page.get(thread)))


def test_a_standby_never_halts(tmp_path: Path) -> None:
    with driver(tmp_path) as one:
        past = instant()
        one.gate.busy(1)
        one.gate.write(STANDBY, 0, close=past, kill=past, park=past)
        assert stays(one)


def test_a_parked_write_is_never_published(tmp_path: Path) -> None:
    with driver(tmp_path) as one:
        one.gate.write(OPEN, token(1))
        stream = one.open(tmp_path / "root" / "offsets" / "0")
        past = instant()
        one.gate.write(CLOSED, token(1), close=past, kill=past, park=later(0.2))
        with pytest.raises((Py4JError, OSError)):
            stream.close()
        assert gone(one)
        assert not (tmp_path / "root" / "offsets" / "0").exists()


def test_an_adopting_process_is_not_taken_for_the_driver(tmp_path: Path) -> None:
    """When the driver's Python has died, the JVM's parent is the reaper of orphans here: it must survive the halt."""
    with driver(tmp_path) as one:
        os.kill(one.process.pid, 9)
        one.process.wait()
        adopted_by = int(Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        one.gate.write(REVOKED, token(1))
        assert gone(one)
        assert adopted_by == 1 or alive(adopted_by)
