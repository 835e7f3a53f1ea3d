"""Where the time of a takeover went: from the events of the replica that took over, and the observer's own clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from testkit.tails import Said

#: Events in the order they come, and the phase each of them ends.
STEPS = (
    ("detected", "detect_s"),
    ("acquired", "acquire_s"),
    ("claimed", "claim_s"),
    ("started", "start_s"),
    ("first-commit", "first_commit_s"),
)
PHASES = tuple(phase for _, phase in STEPS)


@dataclass(frozen=True, slots=True)
class Takeover:
    """One kill and what followed. Phases are seconds, each from the end of the one before; None: the replica did not say.

    ``total_s`` is the observer's alone: from just before the signal to the first new ``commits/N`` with input rows.
    """

    kind: str
    epoch: int
    phases: dict[str, float | None]
    total_s: float
    killed_at: float
    query: str
    batch: int

    def as_json(self) -> dict[str, object]:
        """The object the report promises: times in seconds, rounded to milliseconds."""
        rounded = {name: None if value is None else round(value, 3) for name, value in self.phases.items()}
        return {"kind": self.kind, "epoch": self.epoch, **rounded, "total_s": round(self.total_s, 3)}


def phases_of(said: Iterable[Said], killed_at: float, until: float) -> dict[str, float | None]:
    """Durations between the events of the replica that took over, up to the commit the observer saw at ``until``.

    What counts as detected: the winner saw evidence, or the old leader's supervisor released the lock. A lease that ran out
    is detected and acquired in one step. A restart in place has neither; its first phase is the claim, from the kill on.
    """
    after = sorted((each for each in said if killed_at <= each.at <= until + 5), key=lambda each: each.at)
    durations: dict[str, float | None] = dict.fromkeys(PHASES)
    # With many queries, the first commit comes before the last start.
    won = [each for event in ("started", "claimed") for each in after if each.event == event]
    if not won:
        return durations
    own = [each for each in after if each.log == won[0].log]
    acquired = next((each.at for each in own if each.event == "acquired"), None)
    ends: dict[str, float | None] = {
        "detected": None if acquired is None else _detected(after, won[0].log, acquired),
        "acquired": acquired,
        "claimed": next((each.at for each in own if each.event == "claimed"), None),
        "started": next((each.at for each in own if each.event == "started"), None),
        "first-commit": until,
    }
    at = killed_at
    for event, phase in STEPS:
        end = ends[event]
        if end is not None:
            end = max(at, min(end, until))
            durations[phase] = end - at
            at = end
    return durations


def in_a_line(phases: Mapping[str, float | None]) -> str:
    """Seconds by phase; what the replica did not say is left out."""
    return "  ".join(f"{name[:-2]} {value:.2f}" for name, value in phases.items() if value is not None)


def _detected(after: Iterable[Said], winner: Path, acquired: float) -> float:
    """The last sign before ``acquired``; the moment of acquiring if there was none."""
    signs = [
        each.at
        for each in after
        if each.at <= acquired and ((each.event == "detected" and each.log == winner) or each.event == "released")
    ]
    return max(signs, default=acquired)
