"""One round of rehearsals: every query at the same time, as in a takeover. Its result is a value."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.driver.read_budget import ReadBudget

if TYPE_CHECKING:
    from understudy.driver.pending_query import PendingQuery

#: Kinds of rehearsal that read the user's sources.
_READ = ("live", "throwaway")


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """``how``: live, throwaway, synthetic or plan."""

    how: str


@dataclass(frozen=True, slots=True)
class NotRehearsed:
    reason: str


@dataclass(frozen=True, slots=True)
class RoundResult:
    """``outcomes`` by the query's name, in the order of declaration."""

    outcomes: tuple[tuple[str, Rehearsed | NotRehearsed], ...]
    seconds: float

    @property
    def failed(self) -> bool:
        return any(isinstance(outcome, NotRehearsed) for _, outcome in self.outcomes)

    @property
    def rehearsed(self) -> int:
        """How many queries were rehearsed."""
        return sum(isinstance(outcome, Rehearsed) for _, outcome in self.outcomes)

    @property
    def kinds(self) -> str:
        return ",".join(sorted({outcome.how for _, outcome in self.outcomes if isinstance(outcome, Rehearsed)}))

    @property
    def reason(self) -> str:
        """Why queries were not rehearsed; empty if all were."""
        failures = [(name, outcome) for name, outcome in self.outcomes if isinstance(outcome, NotRehearsed)]
        return "; ".join(f"{name}: {outcome.reason}" for name, outcome in failures)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Rehearsals were paused or cancelled since the round began: how it ended means nothing."""


def run_round(
    queries: Sequence[PendingQuery], rehearsal_of: Callable[[int, PendingQuery], Any], budget: ReadBudget
) -> RoundResult:
    """Rehearse every query in one thread each, and return when all have ended.

    ``rehearsal_of`` makes or finds the JVM's rehearsal of a query, by its index. Raises nothing: what a rehearsal meets must
    disturb neither the script nor the leader.
    """
    began = time.monotonic()
    outcomes: dict[int, Rehearsed | NotRehearsed] = {}

    def rehearse(index: int, query: PendingQuery) -> None:
        try:
            outcomes[index] = rehearse_one(rehearsal_of(index, query), budget)
        except BaseException as error:  # noqa: BLE001 - the reason is reported
            java = getattr(error, "java_exception", None)
            outcomes[index] = NotRehearsed(str(java.getMessage() if java is not None else error))

    threads = [threading.Thread(target=rehearse, args=item) for item in enumerate(queries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    named = tuple((query.name, outcomes[index]) for index, query in enumerate(queries))
    return RoundResult(named, time.monotonic() - began)


def rehearse_one(rehearsal: Any, budget: ReadBudget) -> Rehearsed:
    """Run one round of the JVM's rehearsal, and spend what it has read."""
    known = rehearsal.bytesRead()
    try:
        played = json.loads(rehearsal.round())
    finally:
        budget.spend(0, rehearsal.bytesRead() - known)
    if played["how"] in _READ:
        budget.spend(played["rows"], 0)
    return Rehearsed(str(played["how"]))
