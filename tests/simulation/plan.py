"""What a history is going to be, and what it came to."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What goes wrong in a history.

    ``mixed``: everything but what the others do. ``gone``: the lock is deleted, again and again, while the rest of it happens;
    where replicas may not create, it stays away for a while. ``harm``: an operator deletes, empties, damages, restores and buries documents,
    too. ``rollout``: newer revisions come besides. ``graceful``: pods are told to stop, and nothing else. ``outage``: the API
    server is away for everybody, and nothing else. ``storm``: leaders die, many of them. ``asked``: an operator asks the job to suspend,
    to go on and to hand over, again and again, while the rest of it happens.
    """

    MIXED = "mixed"
    HARM = "harm"
    ROLLOUT = "rollout"
    GRACEFUL = "graceful"
    OUTAGE = "outage"
    STORM = "storm"
    GONE = "gone"
    ASKED = "asked"


#: Only one thing goes wrong in these, and it is known exactly what has to follow.
ALONE = (Kind.GRACEFUL, Kind.OUTAGE)


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of history a seed is. ``finite``: the job comes to its end. ``multi``: the lock is two documents. ``ages``: standbys
    run again from the top when they are some seconds old. ``native``: executors are pods, and a new leader deletes its
    predecessors' before its gate opens. ``runs``: the job has more than one run, and replicas of ended ones come, too.
    """

    seed: int
    kind: Kind
    troubles: int
    multi: bool
    finite: bool
    ages: bool
    native: bool = False
    #: Troubles that are left out, by number, when a history is made shorter.
    without: frozenset[int] = frozenset()
    runs: bool = False

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = random.Random(f"plan {seed}")
        kind = chance.choices(list(Kind), [0.5, 0.2, 0.15, 0.07, 0.07, 0.005, 0.0, 0.0])[0]
        if kind is Kind.MIXED and random.Random(f"asked {seed}").random() < 0.15:
            kind = Kind.ASKED
        if kind is Kind.MIXED and random.Random(f"gone {seed}").random() < 0.15:
            kind = Kind.GONE
        return cls.like(seed, kind)

    @classmethod
    def like(cls, seed: int, kind: Kind) -> Plan:
        chance = random.Random(f"{kind} {seed}")
        troubles = 100 if kind is Kind.STORM else 3 if kind is Kind.OUTAGE else chance.randint(6, 14)
        # an outage between the two writes of `multi` does take the lead: one document says so, and the other does not
        multi = chance.random() < 0.2 and kind is not Kind.OUTAGE
        finite = kind is Kind.MIXED and chance.random() < 0.3
        ages = kind not in ALONE and random.Random(f"ages {seed}").random() < 0.2
        native = kind not in ALONE and random.Random(f"native {seed}").random() < 0.15
        runs = finite and random.Random(f"runs {seed}").random() < 0.5
        return cls(seed, kind, troubles, multi, finite, ages, native, runs=runs)


@dataclass(frozen=True, slots=True)
class Result:
    """``failovers``: how many tokens committed after the first one. ``turns`` tells two runs of one seed apart."""

    plan: Plan
    failovers: int
    broken: tuple[str, ...]
    seconds: float
    turns: int
    trace: tuple[str, ...]
