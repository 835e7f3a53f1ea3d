"""Proof of life and death, with real processes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from understudy.processes import Alive, all_gone, boot_id, kill_all, members, started_at
from understudy.protocol.driver_spec import HOLDER_VARIABLE

JOIN = "from understudy.driver.worker_path.understudy_alive import join_alive; join_alive"
SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, **options: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def release(alive: Alive) -> None:
    """Our own part ends; children may still hold theirs."""
    os.close(alive.descriptor)


def test_death_is_evident_only_when_every_process_that_inherited_is_gone(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    alive = Alive(tmp_path / "holder")
    first = spawn(SLEEP, pass_fds=(alive.descriptor,))
    second = spawn(SLEEP, pass_fds=(alive.descriptor,))
    release(alive)
    for process in (first, second):
        assert not all_gone(alive.path, alive.inode, boot_id())
        process.kill()
        process.wait()
    assert all_gone(alive.path, alive.inode, boot_id())


def test_a_frozen_process_is_not_gone(tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    alive = Alive(tmp_path / "holder")
    frozen = spawn(SLEEP, pass_fds=(alive.descriptor,))
    release(alive)
    frozen.send_signal(signal.SIGSTOP)
    assert not all_gone(alive.path, alive.inode, boot_id())


def test_a_missing_file_and_another_inode_prove_nothing(tmp_path: Path) -> None:
    assert not all_gone(tmp_path / "missing", 1, boot_id())
    alive = Alive(tmp_path / "holder")
    release(alive)
    assert not all_gone(alive.path, alive.inode + 1, boot_id())


def test_another_boot_is_evidence_and_a_boot_that_was_not_recorded_is_not(tmp_path: Path) -> None:
    alive = Alive(tmp_path / "holder")
    assert all_gone(alive.path, alive.inode, "another-boot")
    assert not all_gone(alive.path, alive.inode, "")


def test_a_late_process_of_a_dead_replica_does_not_start(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    alive = Alive(tmp_path / "holder")
    release(alive)
    assert all_gone(alive.path, alive.inode, boot_id())
    late = spawn(f"{JOIN}({str(alive.path)!r})", stderr=subprocess.PIPE)
    _, said = late.communicate()
    assert late.returncode == 87
    assert b"was declared dead" in said


def test_a_process_that_joined_by_name_counts(tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    alive = Alive(tmp_path / "holder")
    joined = spawn(f"{JOIN}({str(alive.path)!r}); print(flush=True); {SLEEP}")
    assert joined.stdout is not None
    joined.stdout.readline()
    release(alive)
    assert not all_gone(alive.path, alive.inode, boot_id())
    joined.kill()
    joined.wait()
    assert all_gone(alive.path, alive.inode, boot_id())


def test_whoever_waits_for_a_death_learns_of_it_when_the_last_process_is_gone_and_so_does_everybody_else(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    alive = Alive(tmp_path / "holder")
    first = spawn(SLEEP, pass_fds=(alive.descriptor,))
    heard: queue.Queue[bool] = queue.Queue()
    for _ in range(2):
        threading.Thread(
            target=lambda: heard.put(all_gone(alive.path, alive.inode, boot_id(), wait=True)), daemon=True
        ).start()
    release(alive)
    time.sleep(0.1)  # both wait in the kernel by now; if not, they just learn it later
    second = spawn(f"{JOIN}({str(alive.path)!r}); print(flush=True); {SLEEP}")
    assert second.stdout is not None
    assert second.stdout.readline() == b"\n"  # those who wait do not keep others from joining
    first.kill()
    with pytest.raises(queue.Empty):
        heard.get(timeout=0.2)
    second.kill()
    assert [heard.get(timeout=10) for _ in range(2)] == [True, True]


def test_killing_a_session_reaches_workers_that_left_the_group_and_daemons_that_left_the_session(
    spawn: Callable[..., subprocess.Popen[bytes]],
) -> None:
    holder = "0f0f-holder"
    leader = spawn(
        "import os, time\n"
        "for leave in (lambda: os.setpgid(0, 0), os.setsid):\n"
        "    if os.fork() == 0:\n"
        "        leave(); time.sleep(60); os._exit(0)\n"
        "time.sleep(0.2); print(flush=True); time.sleep(60)\n",
        start_new_session=True,
        env={**os.environ, HOLDER_VARIABLE: holder},
    )
    assert leader.stdout is not None
    leader.stdout.readline()
    assert until(lambda: len(members(leader.pid, holder)) == 3)
    assert kill_all(leader.pid, holder, within=10)
    assert members(leader.pid, holder) == []


def test_a_child_dies_with_the_parent_that_was_killed(spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    parent = spawn(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', "
        "'from understudy.processes import die_with_parent as d; import time; d(); print(flush=True); time.sleep(60)'],"
        " stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    assert until(lambda: started_at(child) is None)
