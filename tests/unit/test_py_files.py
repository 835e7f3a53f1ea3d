"""What a script may import before it has a session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.driver.py_files import __file__ as module

PRELUDE = """
import sys
from pathlib import Path
from understudy.driver.py_files import make_importable
sys.path.append("installed")  # as site-packages, behind all else
make_importable(sys.argv[1:], {})
"""


def printed(home: Path, script: str, *submit: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PRELUDE + script, *submit],
        cwd=home,
        env={"PYTHONPATH": str(Path(module).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


IMPORTS = """
import first, second
print(first.VALUE, second.VALUE)
try:
    import neighbour
except ModuleNotFoundError as error:
    print(error.name)
"""


@pytest.mark.parametrize(
    "named",
    [
        ("--py-files", "first.py,second.py"),
        ("--py-files", "file:{home}/first.py,file://{home}/second.py"),
        ("--py-files", "{home}/[fs]*.py"),
        ("--conf", "spark.submit.pyFiles=first.py,second.py"),
        ("--properties-file", "my.conf"),
    ],
)
def test_modules_are_imported_by_name_and_their_neighbours_are_not(tmp_path: Path, named: tuple[str, str]) -> None:
    for number, name in enumerate(("first", "second", "neighbour"), 1):
        (tmp_path / f"{name}.py").write_text(f"VALUE = {number}")
    (tmp_path / "my.conf").write_text("spark.submit.pyFiles first.py,second.py")
    assert printed(tmp_path, IMPORTS, named[0], named[1].format(home=tmp_path)) == ["1", "2", "neighbour"]


def test_a_module_wins_over_an_installed_one_and_loses_against_the_scripts_neighbour(tmp_path: Path) -> None:
    for place in ("installed", "shipped", "app"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "config.py").write_text(f"VALUE = {place!r}")
    (tmp_path / "shipped" / "other.py").write_text("VALUE = 'other'")
    script = "import config, other; print(config.VALUE, other.VALUE)"
    submit = ("--py-files", "shipped/config.py,shipped/other.py")
    assert printed(tmp_path, script, *submit) == ["shipped", "other"]
    assert printed(tmp_path, f"sys.path.insert(0, 'app'); {script}", *submit) == ["app", "other"]


def test_files_count_in_the_order_in_which_they_are_named(tmp_path: Path) -> None:
    for place in ("one", "twofold"):  # of different length: bytecode is kept by time and size
        (tmp_path / place).mkdir()
        (tmp_path / place / "config.py").write_text(f"VALUE = {place!r}")
    script = "import config; print(config.VALUE, len([each for each in sys.path if 'py-files-' in each]))"
    assert printed(tmp_path, script, "--py-files", "one/config.py,twofold") == ["one", "1"]
    assert printed(tmp_path, script, "--py-files", "twofold,one/config.py") == ["twofold", "1"]
    assert printed(tmp_path, script, "--py-files", "one/config.py,twofold/config.py") == ["twofold", "1"]


def test_a_traceback_shows_the_module_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("def fails():\n    raise OSError('no')\n")
    script = "import config, traceback\ntry:\n    config.fails()\nexcept OSError:\n    print(traceback.format_exc())"
    assert "raise OSError('no')" in " ".join(printed(tmp_path, script, "--py-files", "config.py"))


def test_a_module_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    script = "try:\n    import config\nexcept ModuleNotFoundError as error:\n    print(error.name)"
    assert printed(tmp_path, script, "--py-files", "config.py") == ["config"]
