"""The example of a systemd unit is one, and tells it nothing that Understudy does not know."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from testkit.places import REPOSITORY
from understudy import errors

UNIT = REPOSITORY / "examples" / "understudy.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze(1) to ask")
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    unit = tmp_path / "flights.service"
    lines = UNIT.read_text().splitlines()
    unit.write_text("\n".join("ExecStart=/bin/true" if line.startswith("ExecStart=") else line for line in lines))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "flights.service" not in done.stderr, done.stderr


def test_what_it_does_not_start_again_are_exit_codes_that_a_new_start_does_not_change() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    codes = {int(word) for word in parser["Service"]["RestartPreventExitStatus"].split()}
    lasting = (errors.JobFailed, errors.SettingsError, errors.EnvironmentProblem, errors.IdentityConflict)
    assert codes == {error.exit_code for error in (*lasting, errors.ScriptProblem)}
