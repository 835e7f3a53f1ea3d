"""Scripts of the zoo as users run them, so that their takeovers are a measurement."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.spark.zoo.exhibits import Exhibit
from tests.spark.zoo.trial import Trial
from understudy.config.tree import Rehearsal

#: Steps that keep a script busy which ends when it has read them, until its standbys have rehearsed.
_LONG = 400


class TimedTrial(Trial):
    """JVMs as shipped, the usual rehearsals, and functions of ``foreachBatch`` rehearsed: those of the zoo may run twice."""

    rehearsals = ("--rehearse-user-code",)
    rounds = Rehearsal().rounds
    standbys = 2  # one that starts, or is in its first rounds, takes the processors from the other's takeover
    patience = 900.0

    def __init__(self, exhibit: Exhibit, home: Path, choose: random.Random) -> None:
        super().__init__(exhibit, home, choose)
        if not exhibit.asked and exhibit.queries:
            self.first_steps = _LONG

    def _wait_in_a_job_that_ends(self) -> None:
        """What a standby of such a job has rehearsed after two rounds has to do: more would take longer than the job."""
        if not self.exhibit.queries:
            super()._wait_in_a_job_that_ends()
            return
        self.rounds = 2
        self._until(lambda: bool(self._ready()) or self._finished(), "a standby that stands by")
        time.sleep(self.choose.uniform(0.0, 1.0))

    def _look(self) -> dict[str, str]:
        """Functions that write by themselves do so in rehearsals, which is what was asked for."""
        return {}

    @staticmethod
    def java() -> str:
        return ""
