"""A virtual environment with the package in it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from testkit.places import REPOSITORY

PACKAGE = REPOSITORY / "examples" / "understudy-etcd"


def environment(directory: Path) -> Path:
    """Installs the package below ``directory``; all else is that of the Python that runs. Returns the environment's Python."""
    venv.create(directory, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    (site / "below.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    python = directory / "bin" / "python"
    # Nothing is fetched: what builds it and what it depends on are here already.
    words = ["-m", "uv", "pip", "install", "--quiet", "--offline", "--no-build-isolation", "--no-deps"]
    command = [sys.executable, *words, "--python", str(python), str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return python
