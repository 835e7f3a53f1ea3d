"""What came of every script, the last time it ran; on disk after each, since a whole run takes hours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.spark.zoo.exhibits import EXHIBITS
from tests.spark.zoo.trial import Outcome

PLACE = Path(__file__).parents[3] / "build" / "zoo" / "report.json"


class Report:
    def __init__(self, path: Path = PLACE) -> None:
        self._path = path
        self._outcomes = (
            {each["script"]: Outcome(**each) for each in json.loads(path.read_text())} if path.exists() else {}
        )

    @property
    def outcomes(self) -> list[Outcome]:
        """In the order of the exhibits."""
        return [self._outcomes[each.script] for each in EXHIBITS if each.script in self._outcomes]

    def keep(self, outcome: Outcome) -> None:
        self._outcomes[outcome.script] = outcome
        self._write()

    def drop(self, script: str) -> None:
        """What it did another time says nothing any more."""
        if self._outcomes.pop(script, None):
            self._write()

    def _write(self) -> None:
        self._path.write_text(json.dumps([asdict(each) for each in self.outcomes], indent=1) + "\n")
