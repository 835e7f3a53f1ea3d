"""What ``understudy.current()`` answers in a replica's driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from understudy.driver.gatekeeper import Gatekeeper


class Leading:
    def __init__(self, gatekeeper: Gatekeeper) -> None:
        self._gatekeeper = gatekeeper

    @property
    def leads(self) -> bool:
        return self._gatekeeper.leads

    @property
    def epoch(self) -> int:
        return self._gatekeeper.token().epoch if self.leads else 0

    @property
    def token(self) -> int:
        return int(self._gatekeeper.token()) if self.leads else 0

    @contextmanager
    def step(self) -> Iterator[int]:
        with self._gatekeeper.user_code():
            yield int(self._gatekeeper.token())
