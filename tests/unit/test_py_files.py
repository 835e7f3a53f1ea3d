"""What a script may import before it has a session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.driver.py_files import __file__ as module

SCRIPT = """
import sys
from understudy.driver.py_files import make_importable
make_importable(sys.argv[1:], {})
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
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, named[0], named[1].format(home=tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(module).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["1", "2", "neighbour"], done.stderr
