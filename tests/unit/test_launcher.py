"""Processes that are to die with this one, asked for by threads that end before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import pytest

from understudy.launcher import from_lasting_thread
from understudy.processes import die_with_parent, started_at

#: Says that it runs, and then when its input ends: its parent's end of it.
CHILD = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]


def child() -> subprocess.Popen[bytes]:
    return subprocess.Popen(CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent)  # noqa: PLW1509 - what is looked at


def in_a_thread_that_ends(make: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    made: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    return made[0]


def said(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_process_outlives_the_thread_that_asked_for_it() -> None:
    """The control is one that the thread has made itself."""
    with in_a_thread_that_ends(child) as control:
        assert control.wait(60) == -9
    with in_a_thread_that_ends(partial(from_lasting_thread, child)) as made:
        assert said(made) == b"\n"
        assert made.poll() is None
        made.communicate()
        assert made.returncode == 0


def test_it_dies_with_its_parent_all_the_same() -> None:
    script = (
        "import subprocess, sys, threading, time\n"
        "from understudy.launcher import from_lasting_thread\n"
        "from understudy.processes import die_with_parent\n"
        "def make():\n"
        "    made = subprocess.Popen(['sleep', '600'], preexec_fn=die_with_parent)\n"
        "    print(made.pid, flush=True)\n"
        "threading.Thread(target=from_lasting_thread, args=(make,)).start()\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        pid = int(said(parent))
        began = started_at(pid)
        assert began is not None
        parent.kill()
    gone = threading.Event()
    give_up = threading.Timer(60, gone.set)
    give_up.start()
    while started_at(pid) == began:
        assert not gone.is_set()
    give_up.cancel()


def test_what_goes_wrong_is_raised_where_it_was_asked_for() -> None:
    with pytest.raises(FileNotFoundError):
        from_lasting_thread(lambda: subprocess.Popen(["/nowhere/java"]))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_of_the_script_has_a_lasting_thread_of_its_own() -> None:
    assert from_lasting_thread(os.getpid) == os.getpid()
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write, str(from_lasting_thread(os.getpid)).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    assert int(os.read(read, 64)) == pid
    os.close(read)
