"""What the command line makes of errors: one line last, and a code that says no more than is known."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.cli import main as command_line
from understudy.config.timings import Timings
from understudy.errors import LeadershipLost, ScriptProblem
from understudy.supervisor.settings import RunSettings


@pytest.mark.parametrize("error", [ValueError("password=hunter2\nof two lines"), LeadershipLost("a higher token")])
def test_what_no_command_was_prepared_for_is_no_failed_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    """Exit code 1 says that the job has FAILED, and a scheduler acts on it."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(command_line, "app", fail)
    monkeypatch.delitem(sys.modules, "obstore", raising=False)  # with it the process ends at once
    monkeypatch.setattr("sys.argv", ["understudy", "status"])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 70
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert told.splitlines()[-1].startswith(f"understudy: status: {type(error).__name__}: ")
    assert "hunter2" not in told


@pytest.mark.parametrize("what", ["is_file", "read_bytes"])
def test_a_script_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    script = tmp_path / "job.py"
    script.touch()

    def refuse(file: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, what, refuse)
    with pytest.raises(ScriptProblem) as refused:
        assert RunSettings(script, (), (), "c", "j", tmp_path, Timings()).digest
    assert str(refused.value) == f"{script}: it cannot be read: Permission denied. See who may read it"
    assert refused.value.exit_code == 6


def test_arguments_and_options_may_be_any_bytes_and_what_is_utf_8_has_the_digest_it_had(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_bytes(b"pass")

    def digest(*arguments: str, submit: tuple[str, ...] = ()) -> str:
        return RunSettings(script, arguments, submit, "c", "j", tmp_path, Timings()).digest

    no_text = os.fsdecode(b"\xff")
    assert (
        len({digest(no_text), digest("\N{LATIN SMALL LETTER Y WITH DIAERESIS}"), digest(submit=("--name", no_text))})
        == 3
    )
    assert (
        digest("\N{GREEK SMALL LETTER PI}")
        == hashlib.sha256("pass\N{GREEK SMALL LETTER PI}\0--\0".encode()).hexdigest()[:12]
    )


def test_what_standard_output_cannot_encode_is_printed_escaped() -> None:
    code = "import sys; from understudy.cli import main as cli; cli.app = lambda: sys.stdout.write('\\udcff \\u03c0'); cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "\\udcff \\u03c0"), done.stderr
