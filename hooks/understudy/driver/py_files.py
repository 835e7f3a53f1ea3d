"""Modules of ``--py-files``, which a script may import before it has a session, as under spark-submit."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from understudy.submit import local_files


def make_importable(submit: Sequence[str], environ: Mapping[str, str]) -> None:
    """Put archives and directories at the front of the path, and with them one that has the module files alone, without their neighbours.

    There they win over installed packages, as under spark-submit, and as in Spark's Python workers: driver and workers import the same.
    Of two module files with one name the last counts. Files that are not on this machine are fetched by Spark, and can be imported once
    there is a session. Raises ``SettingsError`` for a file of settings that cannot be read.
    """
    files = [path.absolute() for path in local_files(submit, environ, "--py-files", "spark.submit.pyFiles")]
    modules = {path.name: path for path in files if path.suffix == ".py"}
    directory = _linked(modules.values()) if modules else None
    places = [directory if path.suffix == ".py" else path for path in files]
    sys.path[0:0] = dict.fromkeys(map(str, places))


def _linked(modules: Iterable[Path]) -> Path:
    """A directory with links, among the driver's temporary files. Links and not copies: what a traceback shows is the file as it is."""
    directory = Path(tempfile.mkdtemp(prefix="py-files-"))
    for module in modules:
        (directory / module.name).symlink_to(module)
    return directory
