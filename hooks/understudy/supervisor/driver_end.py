"""What the end of a driver means: a pure function of what it said last and of how its process ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from understudy.errors import ScriptProblem, UnderstudyError
from understudy.protocol.messages import Ended


@dataclass(frozen=True, slots=True)
class Completed:
    """The script came to its end with exit code 0, and its process ended with status 0."""

    reason: str = "the script ended"


@dataclass(frozen=True, slots=True)
class Refused:
    """Starting the script again would change nothing."""

    error: UnderstudyError

    @property
    def reason(self) -> str:
        return str(self.error)


@dataclass(frozen=True, slots=True)
class Failed:
    """``overdue``: its lease could not be renewed, and it had to end. That is no failure of the script's, and none of the driver's."""

    reason: str
    overdue: bool = False


class EndedDriver(Protocol):
    """``killed_because``: why the supervisor killed it, if it did; ``past_deadline``: because its lease was not renewed."""

    ended: Ended | None
    killed_because: str
    past_deadline: bool

    @property
    def memory_was_short(self) -> bool: ...


def how_it_ended(driver: EndedDriver, status: int, *, overdue: bool = False) -> Completed | Refused | Failed:
    """``status`` as ``subprocess`` has it, negative for a signal. ``overdue``: the gate is past the driver's deadlines, at
    which its JVM halts by itself.

    The script's word and the process's status have to agree: a driver that is killed after its last word has not completed, and
    neither has a process that ends with status 0 without one (``os._exit`` of Python says one; C's ``exit`` does not).
    """
    match driver.ended:
        case Ended(code, error, fatal=True):
            refused = UnderstudyError(error)
            refused.exit_code = code
            return Refused(refused)
        case Ended(code=0, asked=True) if status == 0:
            return Completed()
        case Ended(code=0) if status == 0:
            remedy = "Start a streaming query, or write a result"
            return Refused(
                ScriptProblem("the script ended without starting a query or writing anything", remedy=remedy)
            )
        case _:
            shortage = "; meanwhile the kernel has killed processes of this machine for want of memory"
            why = _why(driver.ended, status, driver.killed_because)
            late = driver.past_deadline or (driver.ended is None and overdue)
            return Failed(why + (shortage if driver.memory_was_short else ""), late)


def _why(ended: Ended | None, status: int, killed_because: str) -> str:
    died = killed_because or _in_words(status)
    match ended:
        case Ended(code=0):
            return f"the script had ended with exit code 0, and its process was still there: {died}"
        case Ended(error=error):
            return error or died
        case None:
            early = status == 0 and not killed_because
            return "the driver's process ended with status 0 before the script had come to its end" if early else died


def _in_words(status: int) -> str:
    return f"the driver ended with status {status}" if status >= 0 else f"the driver was killed by signal {-status}"
