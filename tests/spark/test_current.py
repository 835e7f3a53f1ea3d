"""``understudy.current()``: the one thing a script may ask, on a standby, in the lead, and where there is no other replica."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import understudy
from tests.spark.rig import Rig
from understudy.protocol.messages import Ended, RehearsalReport
from understudy.protocol.token import Token

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import understudy
def told(): return understudy.current().leads, understudy.current().epoch, understudy.current().token
print("before", *told(), flush=True)
with understudy.current().step() as token:
    print("in it", token, *told(), flush=True)
"""


def test_a_step_waits_for_the_lead_and_knows_its_token(tmp_path: Path) -> None:
    with Rig(tmp_path, SCRIPT) as rig:
        assert rig.wait_for(RehearsalReport).held == "job.py:5"
        rig.until(rig.output, "before False 0 0")
        assert "in it" not in rig.text()
        rig.lead(epoch=7, attempt=2)
        token = int(Token(7, 2))
        rig.until(rig.output, f"in it {token} True 7 {token}")
        assert rig.wait_for(Ended).code == 0


def test_a_step_that_comes_too_late_does_not_begin(tmp_path: Path) -> None:
    script = SCRIPT + "while understudy.current().leads: pass\nwith understudy.current().step():\n    print('late')\n"
    with Rig(tmp_path, script) as rig:
        rig.lead()
        rig.until(rig.output, "in it")
        rig.revoke()
        assert "may not write any more" in rig.wait_for(Ended).error
        assert "late" not in rig.text()


def test_by_itself_every_script_leads(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    environment = {"PYTHONPATH": str(Path(understudy.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["before True 0 0", "in it 0 True 0 0"]
