"""When rehearsals run: some rounds at once, so that the JIT has seen a takeover, many with pauses, so that it has compiled one,
then one at every interval.

A standby that is rehearsed on a schedule proves, while nothing is wrong, that the checkpoint can be read and the batch can run.
This module is pure: no clock, no thread, no chance.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A script that has declared a query and asks nothing for this long is taken to have declared all of them, in seconds.
QUIET = 2.0

#: Seconds between two looks at a script that may still declare queries.
LOOK = 0.1

#: Rounds that follow each other without a pause. After them a takeover is quick, and its first batch still spends a third of the
#: processor in the JIT: that takes some thirty rounds to calm down.
AT_ONCE = 4

#: How many times as long as the last round the pauses are until all rounds have run. A takeover shares its machine with what the
#: other standbys rehearse: at half speed (1), kills in the first minutes took 1.6 s instead of 0.9 on two cores.
PAUSE_FACTOR = 5

#: Seconds of such a pause that are enough; the pause after a longer round is as long as that round. In a cluster, where rounds
#: take 2.5 s, a new standby was warm after four minutes without this limit.
LONG_ENOUGH = 5.0

#: How many times as long as a round of more than ``LONG_ENOUGH`` the pause after it is, once all rounds have run. With 1 GB of state, which
#: each of them loads, rounds took 9 to 19 s: every 30 s, that is a third of a processor for as long as a standby stands by.
REST = 9


@dataclass(frozen=True, slots=True)
class Policy:
    """``rounds`` come before the interval of ``every`` seconds; ``off``: no rehearsals."""

    rounds: int
    every: float
    off: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """``held``: a thread of the script waits for the grant. Times are seconds of one clock.

    ``declared_at``: when the script last declared a query or went on. ``declared``: it is taken to have declared all.
    """

    held: bool
    declared_at: float
    cancelled: bool
    paused_until: float = 0.0
    declared: bool = False
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class AwaitDeclarations:
    """Look again in ``seconds``, or when the script waits."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BeginRehearsals:
    """The script is taken to have declared every query."""


@dataclass(frozen=True, slots=True)
class ReportOff:
    """Report that nothing is rehearsed, and end."""


@dataclass(frozen=True, slots=True)
class SitOut:
    """Rehearsals are paused for another ``seconds``: a takeover is about to come."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RunRound:
    """``number`` counts from one."""

    number: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Leadership was granted or revoked: nothing is rehearsed any longer."""


Step = AwaitDeclarations | BeginRehearsals | ReportOff | SitOut | RunRound | Stop


def next_step(policy: Policy, state: ScheduleState, now: float) -> Step:
    if not state.declared:
        quiet = now - state.declared_at >= QUIET
        return BeginRehearsals() if state.held or quiet or state.cancelled else AwaitDeclarations(LOOK)
    if policy.off:
        return ReportOff()
    if state.cancelled:
        return Stop()
    if (left := state.paused_until - now) > 0:
        return SitOut(left)
    return RunRound(state.rounds + 1)


def pause_after(
    policy: Policy, rounds: int, seconds: float, *, failed: bool, budget_pause: float, jitter: float
) -> float:
    """Seconds to the next round, after ``rounds`` of which the last took ``seconds``.

    ``budget_pause``: until more may be read. ``jitter`` scales the interval, so that standbys do not rehearse in step.
    """
    if failed or rounds >= policy.rounds:
        rest = REST * seconds if seconds > LONG_ENOUGH else 0.0
        return max(max(policy.every, rest) * jitter, budget_pause)
    if rounds < AT_ONCE:
        return 0.0
    return max(min(PAUSE_FACTOR * seconds, LONG_ENOUGH, policy.every), seconds, budget_pause)
