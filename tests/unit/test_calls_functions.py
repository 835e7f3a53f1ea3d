"""A script that turned out to have a function which no rehearsal may call: its replica remembers that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.test_supervisor import Bench, on
from understudy.protocol.messages import RehearsalReport
from understudy.supervisor.inputs import DriverMessage


def test_a_function_that_no_rehearsal_may_call_is_remembered_for_the_drivers_to_come(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        told = RehearsalReport("job.py:3", True, "live", 1, 1.0)
        for message, calls in ((told, True), (replace(told, calls_functions=False), False), (told, False)):
            await bench.replica._deal_with(DriverMessage(1, message))
            assert bench.replica._execute.slot.calls_functions is calls

    on(tmp_path, script)
