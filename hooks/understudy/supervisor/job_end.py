"""What follows where the job has ended while this replica leads it: by another's hand, or by a write of its own that was not answered. Pure."""

from __future__ import annotations

from dataclasses import replace

from understudy.ha.job import Status
from understudy.protocol.token import Token
from understudy.supervisor.commands import ClearExecutors, Command, Decision, RecordEnd, Say, TerminateAndReap
from understudy.supervisor.state import State


def clear_all(state: State) -> tuple[Command, ...]:
    """Executors of a job that does not go on."""
    return (ClearExecutors(own=True),) if state.rules.clears_executors else ()


def ended_already(state: State, token: Token, status: Status) -> Decision:
    """The document says that the job has ended under our own ``token``, so its driver may write nothing more.

    Recording that end again changes nothing in the document. It reads what stands there, which the exit code depends on.
    """
    said = Say("job-ended-already", f"the job is {status}; its driver ends", {"epoch": token.epoch})
    end = RecordEnd(token, status, f"the job is {status}")
    return replace(state, driver=None), (said, TerminateAndReap(), *clear_all(state), end)
