"""What the end of a driver means: a pure function of what it said last and of how its process ended."""

from __future__ import annotations

from dataclasses import dataclass

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
    reason: str


def how_it_ended(
    ended: Ended | None, status: int, killed_because: str, *, memory_was_short: bool = False
) -> Completed | Refused | Failed:
    """``status`` as ``subprocess`` has it, negative for a signal; ``killed_because`` is why the supervisor killed it, if it did.

    The script's word and the process's status have to agree: a driver that is killed after its last word has not completed, and
    neither has a process that ends with status 0 without one (``os._exit`` of Python says one; C's ``exit`` does not).
    """
    match ended:
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
            return Failed(_why(ended, status, killed_because) + (shortage if memory_was_short else ""))


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
