"""Calls at the same time, also after the main thread has ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import understudy
from understudy.driver.parallel import call_each


def test_answers_come_in_the_order_of_the_arguments() -> None:
    assert call_each(lambda number: number * 2, list(range(20)), at_most=8) == [number * 2 for number in range(20)]
    assert call_each(str, [], at_most=8) == []


def test_calls_overlap_and_no_more_than_allowed() -> None:
    together = threading.Barrier(3, timeout=30)
    assert len(call_each(lambda _: together.wait(), [0, 1, 2], at_most=3)) == 3
    running, most, lock = 0, 0, threading.Lock()

    def count(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1

    call_each(count, list(range(50)), at_most=2)
    assert most <= 2


def test_what_a_call_raises_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        call_each(lambda number: 1 // number, [1, 0, 2], at_most=2)


def test_it_works_after_the_main_thread_has_ended() -> None:
    script = (
        "import threading, time\n"
        "from understudy.driver.parallel import call_each\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    print(call_each(abs, [-1, -2], at_most=2))\n"
        "threading.Thread(target=work).start()\n"
    )
    environment = {"PYTHONPATH": str(Path(understudy.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2]\n", done.stderr
