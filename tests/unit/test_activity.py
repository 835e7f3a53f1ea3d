"""Each process counts the user code that it runs; a dead process counts nothing."""

from __future__ import annotations

import multiprocessing
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from understudy.clock import instant
from understudy.driver.gate_client import GateClient
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateWriter
from understudy.processes import started_at
from understudy.protocol.activity import PAGE
from understudy.protocol.gate import State, View
from understudy.protocol.token import Token

#: From Python 3.12 on, for children of a process with threads: that is what is looked at here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

HOUR = 3600.0


@pytest.fixture
def page(tmp_path: Path) -> Activity:
    """The supervisor's end."""
    return Activity(tmp_path / "gate.activity", create=True)


@pytest.fixture
def gate_client(tmp_path: Path, page: Activity) -> GateClient:
    """Of a leader whose gate stays open."""
    del page
    now = instant()
    GateWriter(tmp_path / "gate").publish(View(State.OPEN, Token(1, 1), now.plus(HOUR), now.plus(HOUR), now.plus(HOUR)))
    return GateClient(tmp_path / "gate", tmp_path / "job.py", lambda _: None)


@contextmanager
def forked(code: object) -> Iterator[int]:
    """A child that calls ``code`` with what says when to go on; it has been told to, and has ended, afterwards."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(write)
            code(lambda: os.read(read, 1))  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    os.close(read)
    try:
        yield pid
    finally:
        os.close(write)
        assert os.waitpid(pid, 0)[1] == 0


def until(page: Activity, count: int) -> None:
    give_up = threading.Event()
    timer = threading.Timer(30, give_up.set)
    timer.start()
    while page.running != count:
        assert not give_up.is_set(), page.running
    timer.cancel()


def test_a_child_that_asks_for_a_step_leaves_its_parents_count_alone(page: Activity, gate_client: GateClient) -> None:
    def child(wait: object) -> None:
        with gate_client.user_code():
            wait()  # type: ignore[operator]

    with gate_client.user_code():
        pass
    with forked(child):
        until(page, 1)
        with gate_client.user_code():
            assert page.running == 2
        assert page.running == 1
    assert page.running == 0


def test_a_child_that_has_ended_takes_nothing_from_its_parent(page: Activity, gate_client: GateClient) -> None:
    with gate_client.user_code():
        process = multiprocessing.get_context("fork").Process(target=lambda: gate_client.user_code().__enter__())
        process.start()
        process.join()
        assert page.running == 1


def test_a_child_made_in_a_step_goes_on_with_it_until_it_dies(page: Activity, gate_client: GateClient) -> None:
    with gate_client.user_code():
        child = forked(lambda wait: wait())
        child.__enter__()
        until(page, 2)
    until(page, 1)
    child.__exit__(None, None, None)
    assert page.running == 0


def test_a_child_made_beside_a_step_of_another_thread_is_in_none(page: Activity, gate_client: GateClient) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def step() -> None:
        with gate_client.user_code():
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=step)
    thread.start()
    inside.wait()

    def child(wait: object) -> None:
        with gate_client.user_code():
            pass
        assert not gate_client.user_code_runs
        wait()  # type: ignore[operator]

    with forked(child):
        until(page, 1)
    go_on.set()
    thread.join()


def test_the_slots_of_the_dead_are_taken_again(page: Activity, tmp_path: Path) -> None:
    for _ in range(PAGE // 32 + 8):  # more than there are slots
        with forked(lambda _: Activity(tmp_path / "gate.activity").set(1)):
            pass
    assert page.running == 0
    Activity(tmp_path / "gate.activity").set(1)
    assert page.running == 1
    assert struct.unpack_from("<Q", (tmp_path / "gate.activity").read_bytes(), 0) == (0,)


def test_a_process_that_finds_no_slot_is_counted_all_the_same(page: Activity, tmp_path: Path) -> None:
    started = started_at(1)
    assert started is not None
    full = bytes(32) + struct.pack("<QQQQ", 1, started, 0, 0) * (PAGE // 32 - 1)
    (tmp_path / "gate.activity").write_bytes(full)
    mine = Activity(tmp_path / "gate.activity")
    mine.set(2)
    assert page.running == 2
    mine.set(0)
    assert page.running == 0


def test_another_process_with_a_dead_ones_pid_is_not_taken_for_it(page: Activity, tmp_path: Path) -> None:
    started = started_at(os.getppid())
    assert started is not None
    slot = struct.pack("<QQQQ", os.getppid(), started - 1, 5, 0)
    (tmp_path / "gate.activity").write_bytes(bytes(32) + slot + bytes(PAGE - 64))
    assert page.running == 0


def test_a_process_whose_first_thread_has_ended_lives() -> None:
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print(flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            give_up = threading.Event()
            timer = threading.Timer(30, give_up.set)
            timer.start()
            while b") Z " not in Path(f"/proc/{process.pid}/stat").read_bytes():
                assert not give_up.is_set()
            timer.cancel()
            assert started_at(process.pid) is not None
        finally:
            process.kill()
    assert started_at(process.pid) is None
