"""Modules of ``--py-files``, which a script may import before it has a session, as under spark-submit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.submit import local_files

#: Below a driver's scratch, where rehearsals have directories of other names.
_DIRECTORY = "py-files"


def make_importable(submit: Sequence[str], environ: Mapping[str, str], scratch: Path) -> None:
    """Put archives and directories at the front of the path, and with them one that has the module files alone, without their neighbours.

    There they win over installed packages, as under spark-submit, and as in Spark's Python workers: driver and workers import the same.
    Of two module files with one name the last counts. Files that are not on this machine are fetched by Spark, and can be imported once
    there is a session. Raises ``SettingsError`` for a file of settings that cannot be read.
    """
    files = [path.absolute() for path in local_files(submit, environ, "--py-files", "spark.submit.pyFiles")]
    places = [_linked(path, scratch / _DIRECTORY) if path.suffix == ".py" else path for path in files]
    sys.path[0:0] = dict.fromkeys(map(str, places))


def _linked(module: Path, directory: Path) -> Path:
    """A link and not a copy: what a traceback shows is the file as it is."""
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / module.name
    link.unlink(missing_ok=True)
    link.symlink_to(module)
    return directory
