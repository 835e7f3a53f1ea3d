from __future__ import annotations

import pytest

from tests.doubles.clocks import Hands
from understudy.supervisor.health import FenceCounts, Health


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def health(clock: Hands) -> Health:
    """Of a replica that began just now; its elector may be silent for 4 s."""
    return Health(clock, FenceCounts(), live_within=4.0)
