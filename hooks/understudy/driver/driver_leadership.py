"""What ``understudy.current()`` answers in a replica's driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from understudy.driver.gate_client import GateClient


class DriverLeadership:
    def __init__(self, gate_client: GateClient) -> None:
        self._gate_client = gate_client

    @property
    def leads(self) -> bool:
        return self._gate_client.leads and not self.rehearsing

    @property
    def epoch(self) -> int:
        return self._gate_client.token().epoch if self.leads else 0

    @property
    def token(self) -> int:
        return int(self._gate_client.token()) if self.leads else 0

    @property
    def rehearsing(self) -> bool:
        return self._gate_client.rehearsed.here

    @contextmanager
    def step(self) -> Iterator[int]:
        self._gate_client.rehearsed.refuse("understudy.current().step()")
        with self._gate_client.user_code():
            yield int(self._gate_client.token())
