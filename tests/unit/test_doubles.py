"""What tests and the observer write and read of shared pages, by the vectors that Python and the JVM share (``tests/vectors``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit import procs
from tests.doubles import pages
from tests.simulation.parts import Gate
from tests.unit.test_vectors import Vector, page, vectors, view
from understudy.clock import Instant
from understudy.protocol.counters import Counts
from understudy.protocol.gate import State

STATES = {"standby": pages.STANDBY, "open": pages.OPEN, "closed": pages.CLOSED, "revoked": pages.REVOKED}


@pytest.mark.parametrize("vector", vectors("gate.json", valid=True))
def test_the_gate_that_tests_write_is_that_of_the_vector(vector: Vector, tmp_path: Path) -> None:
    gate = pages.GatePage(tmp_path / "gate")
    gate.sequence = vector["sequence"] - 2
    deadlines = [Instant(*vector[deadline]) for deadline in ("close", "kill", "park")]

    written = gate.page(STATES[vector["state"]], vector["token"], *deadlines)

    assert written.ljust(len(page(vector)), b"\0") == page(vector)


@pytest.mark.parametrize("vector", vectors("gate.json", valid=True))
def test_the_gate_of_the_simulator_means_what_the_vector_says(vector: Vector) -> None:
    gate = Gate(Path("gate"))
    gate.publish(view(vector))

    for at in vector.get("at", ()):
        assert gate.view.standing(Instant(at["boottime"], at["monotonic"])) is State[at["state"].upper()]


@pytest.mark.parametrize("vector", vectors("activity.json", valid=True))
def test_the_observer_reads_how_much_of_the_users_code_runs_in_a_jvm(vector: Vector) -> None:
    assert procs.running_in(page(vector)) == vector["shared"]


def test_the_counters_that_tests_write_are_read_as_they_were_meant(tmp_path: Path) -> None:
    read = pages.counters(tmp_path / "counters", refused=3, committed_ms=2500).read()

    assert read == Counts(refused=3, committed_at=2.5, committed_batch=0)
