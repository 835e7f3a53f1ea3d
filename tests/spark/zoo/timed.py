"""Scripts of the zoo as users run them, so that their takeovers are a measurement."""

from __future__ import annotations

from tests.spark.zoo.trial import Trial


class TimedTrial(Trial):
    """JVMs as shipped, the usual rehearsals, and functions of ``foreachBatch`` rehearsed: those of the zoo may run twice."""

    rehearsals = ("--rehearse-user-code",)
    rounds = 6

    @staticmethod
    def java() -> str:
        return ""
