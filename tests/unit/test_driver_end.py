"""What the end of a driver means, by its last word and its process's status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.driver.error_text import first_line
from understudy.errors import ScriptProblem
from understudy.processes import is_exiting
from understudy.protocol.messages import Ended
from understudy.supervisor.driver_end import Completed, Failed, Refused, how_it_ended

WELL = Ended(0, "", asked=True)


def ended(
    word: Ended | None, status: int, killed: str = "", *, short: bool = False, overdue: bool = False, late: bool = False
) -> Any:
    driver: Any = SimpleNamespace(ended=word, killed_because=killed, memory_was_short=short, past_deadline=late)
    return how_it_ended(driver, status, overdue=overdue)


def test_a_script_has_completed_only_if_its_process_ended_with_0_too() -> None:
    assert ended(WELL, 0, "") == Completed()
    assert ended(WELL, -9, "") == Failed(
        "the script had ended with exit code 0, and its process was still there: the driver was killed by signal 9"
    )
    assert ended(WELL, 120, "") == Failed(
        "the script had ended with exit code 0, and its process was still there: the driver ended with status 120"
    )


@pytest.mark.parametrize("status", [0, -9])
def test_a_process_without_a_last_word_has_not_completed(status: int) -> None:
    assert isinstance(ended(None, status, ""), Failed)


def test_why_it_was_killed_is_the_reason() -> None:
    assert ended(None, -9, "the JVM died") == Failed("the JVM died")
    assert ended(None, 0, "the JVM died") == Failed("the JVM died")
    assert ended(WELL, -9, "the JVM died").reason.endswith("the JVM died")


def test_the_scripts_own_error_comes_before_the_status() -> None:
    assert ended(Ended(1, "OSError: no", asked=True), 0, "") == Failed("OSError: no")


def test_what_a_missed_renewal_has_ended_is_no_failure() -> None:
    killed = "user code was running when the lease could not be renewed"
    assert ended(None, -9, killed, late=True) == Failed(killed, overdue=True), "also if it was renewed meanwhile"
    assert ended(None, -9, overdue=True).overdue, "the JVM halts itself, too"
    assert ended(WELL, 0, overdue=True) == Completed()
    assert not ended(Ended(1, "OSError: no", asked=True), 1, overdue=True).overdue, "that is the script's own"


def test_a_shortage_of_memory_is_named_for_a_death_and_not_for_an_end() -> None:
    assert ended(None, -9, "", short=True).reason.endswith("for want of memory")
    assert ended(WELL, 0, "", short=True) == Completed()


def test_a_script_that_wrote_nothing_is_refused_unless_it_was_killed() -> None:
    idle = Ended(0, "", asked=False)
    refused = ended(idle, 0, "")
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, ScriptProblem)
    assert isinstance(ended(idle, -9, ""), Failed)


def test_what_understudy_refused_keeps_its_exit_code() -> None:
    refused = ended(Ended(3, "no fence", asked=False, fatal=True), 3, "")
    assert isinstance(refused, Refused)
    assert (refused.error.exit_code, refused.reason) == (3, "no fence")


def test_a_process_is_exiting_from_its_end_until_it_is_gone() -> None:
    assert not is_exiting(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not reaped
    assert Path(f"/proc/{child.pid}/stat").exists()
    assert is_exiting(child.pid)
    child.wait()
    assert is_exiting(child.pid)


def test_the_line_that_tells_of_an_error_in_a_function_that_spark_called_is_the_functions_own() -> None:
    proxy = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "job.py", line 3, in write\n    raise OSError("no service")\nOSError: no service\n\tat py4j.Protocol\n'
    )
    told = "RuntimeError: An exception was raised by the Python Proxy. Return Message: OSError: no service"
    assert first_line(RuntimeError(proxy)) == told
    assert first_line(RuntimeError("plain\nand more")) == "RuntimeError: plain"
