from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.clocks import Hands
from understudy.supervisor.health import FenceCounts, Health


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def health(tmp_path: Path, clock: Hands) -> Health:
    """Of a replica that began just now; its elector may be silent for 4 s."""
    return Health(clock, FenceCounts(tmp_path / "fence.jsonl"), live_within=4.0)
