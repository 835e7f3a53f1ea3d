"""Sees to it that a wheel has its fence: without the jar a driver would run and nothing would refuse a stale one.

A wheel takes the jar in ``hooks/understudy/jars`` if it was built from these sources (``make jar`` says so in ``.stamp``) or came with
them in a source distribution; else it builds one with Maven. Where neither can be, there is no wheel. An editable install is a
checkout's: ``make jar`` builds the jar afterwards, and ``understudy run`` says so where it is missing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FenceHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data  # the wheel's artifacts name the jar
        if version != "editable":
            provide_fence(Path(self.root))


def provide_fence(root: Path) -> None:
    """Ends the build, with one line, where ``hooks/understudy/jars`` cannot be given the jar of these sources."""
    jars = root / "hooks" / "understudy" / "jars"
    found = sorted(jars.glob("understudy-fence-*.jar"))
    key = _key(root)
    if found and ((root / "PKG-INFO").is_file() or _text(jars / ".stamp") == key):
        return
    if (maven := shutil.which("mvn")) is None:
        _fail("Maven is not installed")
    pom = root / "hooks" / "jvm" / "pom.xml"
    command = [maven, "-q", "-B", "-ntp", "-Dmaven.test.skip=true", "-f", str(pom), "package"]
    environment = {**os.environ, "JAVA_HOME": _java_home(root)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    built = sorted((root / "hooks" / "jvm" / "target").glob("understudy-fence-*.jar"))
    if ended.returncode != 0 or not built:
        said = [line for line in ended.stdout.splitlines() + ended.stderr.splitlines() if line.strip()]
        _fail(f"Maven failed ({said[0].strip() if said else 'without a word'})")
    jars.mkdir(exist_ok=True)
    for jar in found:
        jar.unlink()
    for jar in built:
        shutil.copy(jar, jars)
    (jars / ".stamp").write_text(f"{key}\n", encoding="ascii")


def _key(root: Path) -> str:
    """Of the fence's sources, as ``tools/setup.sh`` computes it (``jar_key``)."""
    lines = []
    for path in (root / "hooks" / "jvm").rglob("*"):
        parts = path.relative_to(root).parts
        if path.is_file() and not {"target", "s3a", "test"} & set(parts[:-1]):
            lines.append((os.fsencode("/".join(parts)), hashlib.sha256(path.read_bytes()).hexdigest()))
    listing = b"".join(digest.encode() + b"  " + name + b"\n" for name, digest in sorted(lines))
    return hashlib.sha256(listing).hexdigest()


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip() if path.is_file() else ""


def _java_home(root: Path) -> str:
    sys.path.insert(0, str(root / "hooks"))
    try:
        from understudy.environment import find_java
        from understudy.errors import EnvironmentProblem

        try:
            return str(find_java(compiler=True).home)
        except EnvironmentProblem as problem:
            _fail(problem.what)
    finally:
        sys.path.remove(str(root / "hooks"))


def _fail(why: str) -> NoReturn:
    sys.exit(
        f"understudy-spark: the fence's jar cannot be built: {why}. "
        "Install a JDK 17 or 21 and Maven, or run `make jar` in a checkout first; without its fence there is no package"
    )
