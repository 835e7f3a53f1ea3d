"""The decisions of an election: ``(state, input, now) -> (state, commands)``.

No clock, no I/O, no randomness. One request at most is under way (``State.awaited``), so every answer is about the view that
was decided on. ``now`` never goes back and is this process's own ``CLOCK_BOOTTIME`` in seconds; no foreign clock is read.

The arithmetic that keeps two gates from being open at once: a holder's gate closes at (send time of the last confirmed
renewal) + renew; no other process contends before (time *it* saw that record change) + lease; what is seen was sent
before; and renew < lease. Compare-and-set then lets one of several contenders through. Everything else here is about
losing little time.
"""

from __future__ import annotations

from typing import assert_never

from understudy.election import following, leading
from understudy.election.commands import Command
from understudy.election.inputs import (
    Answer,
    ContendAsked,
    Evidence,
    Hint,
    Input,
    MinEpochRead,
    MinEpochUnknown,
    RaiseAsked,
    Ready,
    ReleaseAsked,
    Seen,
    StopAsked,
    Tick,
    Unseen,
)
from understudy.election.state import Awaited, Role, State
from understudy.election.transition import Transition

#: Evidence of this many holders is remembered: it may arrive before the record that names the holder is seen.
_REMEMBERED = 16


def decide(state: State, observation: Input, now: float) -> tuple[State, tuple[Command, ...]]:
    """The next state, and what to do, in that order. Pure."""
    transition = Transition(state, now)
    match observation:
        case Seen() | Unseen() | MinEpochRead() | MinEpochUnknown() | Answer():
            transition.put(awaited=Awaited.NOTHING)
            _hear_answer(transition, observation)
        case _:
            _hear(transition, observation)
    _go_on(transition)
    return transition.state, tuple(transition.commands)


def wakes_at(state: State) -> tuple[float, float]:
    """When to tick next, if nothing is observed before: for a deadline, and for a poll (a little later does no harm)."""
    idle, never = state.awaited is Awaited.NOTHING, float("inf")
    next_at = state.next_at if idle else never
    match state.role:
        case Role.STOPPED:
            return never, never
        case Role.LEADING:
            return min(state.gate_deadline, next_at), never
        case Role.PARKED:
            return next_at, never
        case Role.RELEASING:
            release = None if state.held_lease is None else state.held_lease.release
            return min(never if release is None else release.until, next_at), never
        case Role.LOST:
            return _lost_until(state), next_at
        case Role.STANDBY | Role.CONTENDING:
            due = following.contends_at(state) if idle else None
            if due is None or (state.read_failed and following.needs_reading(state)):
                return never, next_at
            return max(due, state.not_before), next_at
        case _:
            assert_never(state.role)


def _lost_until(state: State) -> float:
    """The driver of a lost grant is being killed for about this long; what it says of readiness meanwhile is about the past."""
    return state.lost_at + state.rules.timings.kill + state.rules.timings.retry


def _hear(
    transition: Transition, heard: Tick | Hint | Ready | ContendAsked | Evidence | StopAsked | ReleaseAsked | RaiseAsked
) -> None:
    state = transition.state
    match heard:
        case Tick():
            return
        case Hint():
            transition.put(hint=heard)
        case Ready(ready):
            transition.put(ready=ready)
        case ContendAsked():
            transition.put(not_before=float("-inf"))
        case Evidence(holder):
            if holder not in {state.rules.holder, *dict(state.dead)}:
                transition.put(dead=(*state.dead, (holder, transition.now))[-_REMEMBERED:])
        case StopAsked():
            transition.put(stopping=True)
        case ReleaseAsked(successor):
            leading.release_asked(transition, successor)
        case RaiseAsked(epoch):
            leading.raise_asked(transition, epoch)
        case _:
            assert_never(heard)


def _hear_answer(transition: Transition, heard: Seen | Unseen | MinEpochRead | MinEpochUnknown | Answer) -> None:
    leads = transition.state.held_lease is not None
    match heard:
        case Seen(lock_state):
            transition.reached()
            if leads:
                leading.inspect(transition, lock_state)
            else:
                transition.follow(lock_state)
        case Unseen(cause):
            transition.unreached(f"the lock cannot be read: {cause}")
            if leads:
                leading.unseen(transition)
            else:
                transition.put(
                    read_failed=True, next_at=max(transition.now, transition.state.asked_at + transition.timings.retry)
                )
        case MinEpochRead(epoch):
            following.contend(transition, epoch)
        case MinEpochUnknown(cause):
            following.min_epoch_unknown(transition, cause)
        case Answer(attempt, outcome):
            (leading if leads else following).answered(transition, attempt, outcome)
        case _:
            assert_never(heard)


def _go_on(transition: Transition) -> None:
    if transition.state.hint is not None and not transition.hinted:
        transition.put(hint=None)  # known by now; kept any longer it would look like news after the next write
    leading.deadlines(transition)
    if transition.state.role is Role.LOST and transition.now >= _lost_until(transition.state):
        transition.put(role=Role.STANDBY)
    leads = transition.state.held_lease is not None
    # guard: stopping-ends-the-election
    if not leads and transition.state.stopping and transition.state.awaited is not Awaited.WRITE:
        # A process that stops and contends makes the others wait for a whole lease (Flink 2.3's does).
        transition.put(role=Role.STOPPED)
    if transition.state.role is Role.STOPPED or transition.state.awaited is not Awaited.NOTHING:
        return
    (leading.lead if leads else following.stand_by)(transition)
