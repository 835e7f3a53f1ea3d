"""What a driver needs from its machine: a Java that Spark supports, Spark itself, and the fence's jar for that Spark.

Java is found by *running* each candidate: directory names, symbolic links and ``JAVA_HOME`` lie, ``java -version`` does not.
Spark's version is read without importing it, because the supervisor asks and must stay small. Nothing is installed or
changed here; what is missing is an ``EnvironmentProblem`` that names what was looked at and the remedy.

``conf/spark-env.sh`` is read once, when a replica starts, as spark-submit's own scripts read it, and counts for everything after.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from understudy.errors import EnvironmentProblem

#: Java's feature releases that Spark 4.1 to 4.3 support.
JAVA_RELEASES = (17, 21)

#: Manifest attribute of the fence's jar: the Spark lines it was built for, separated by commas ("4.2,4.3").
SPARK_LINE = "Understudy-Spark-Line"

#: Seconds for one ``java -version``; a cold machine takes one, a hung network mount takes for ever.
_PATIENCE = 20.0

#: Seconds for ``conf/spark-env.sh``, which may start a JVM of its own (``hadoop classpath``).
_SPARK_ENV_PATIENCE = 60.0

#: What spark-submit and spark-class do before they start Java. What the file prints is for people.
_SPARK_ENV = """
exec 3>&1 1>&2
export PYTHONHASHSEED=0
. "$SPARK_HOME/bin/load-spark-env.sh"
env -0 >&3
"""

#: The shell's own.
_OF_THE_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})

_OPTIONS = frozenset({"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"})
_MAJOR = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home = (\S.*?)\s*$", re.MULTILINE)
_SPARK_VERSION = re.compile(r"""^__version__[^=]*=\s*["']([^"']+)["']""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that ran. ``path`` is how it was called, ``home`` what it says of itself (through any shim or symbolic link).

    ``major`` is its feature release; ``home`` is what ``JAVA_HOME`` must be for exactly this one.
    """

    path: Path
    major: int
    home: Path


def find_java(
    *,
    environ: Mapping[str, str] | None = None,
    installed: Path = Path("/usr/lib/jvm"),
    compiler: bool = False,
) -> Java:
    """The first Java 17 or 21 among JAVA_HOME, PATH and ``installed``; with ``compiler``, only one that has ``javac`` beside it.

    Raises ``EnvironmentProblem`` that lists every Java that was found, and why each will not do.
    """
    environ = os.environ if environ is None else environ
    refused: list[str] = []
    seen: set[Path] = set()
    for candidate in _candidates(environ, installed):
        path = candidate.resolve()
        if path in seen:
            continue
        seen.add(path)
        java = _run(candidate)
        if java is None:
            refused.append(f"{candidate} (does not run)")
        elif java.major not in JAVA_RELEASES:
            refused.append(f"{candidate} (Java {java.major})")
        elif compiler and not (java.home / "bin" / "javac").exists():
            refused.append(f"{candidate} (Java {java.major} without javac)")
        else:
            return java
    wanted = " or ".join(str(release) for release in JAVA_RELEASES)
    found = ", ".join(refused) if refused else "none in JAVA_HOME, on PATH or in " + str(installed)
    raise EnvironmentProblem(
        f"no Java {wanted} found: {found}",
        where="java",
        remedy="Install openjdk-17-jre-headless or openjdk-21-jre-headless, or set JAVA_HOME to one",
    )


def spark_version(search: Sequence[str] | None = None) -> str:
    """The version of the PySpark that ``import pyspark`` would load, without loading it.

    ``search`` replaces ``sys.path``. Read from the package's own ``version.py``, because a Spark on ``PYTHONPATH`` (a
    distribution under ``SPARK_HOME``) has no metadata and hides the one that has. Raises ``EnvironmentProblem``.
    """
    for text in _version_files(search):
        if found := _SPARK_VERSION.search(text):
            return found[1]
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise EnvironmentProblem(
            "PySpark is not installed for this Python",
            where=sys.executable,
            remedy="Install understudy-spark[spark], or put the Spark of your image on PYTHONPATH",
        ) from None


def spark_home(environ: Mapping[str, str] | None = None) -> Path | None:
    """Where the Spark is that PySpark starts: ``SPARK_HOME``, else PySpark's own package. None if there is no PySpark."""
    environ = os.environ if environ is None else environ
    if named := environ.get("SPARK_HOME"):
        return Path(named)
    spec = find_spec("pyspark")
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else None


def spark_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment in which spark-submit would run Java: ``environ`` after ``conf/spark-env.sh``, which is not read again then.

    Raises ``EnvironmentProblem`` with the file's name when it does not come to its end.
    """
    environ = dict(os.environ if environ is None else environ)
    home = spark_home(environ)
    if home is None or not (home / "bin" / "load-spark-env.sh").exists():
        return environ
    environ["SPARK_HOME"] = str(home)
    file = Path(environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-env.sh"
    try:
        done = subprocess.run(
            ["bash", "-c", _SPARK_ENV],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=_SPARK_ENV_PATIENCE,
            check=False,
        )
        why = f"it ended with status {done.returncode}"
    except subprocess.TimeoutExpired:
        done, why = None, f"it did not end within {_SPARK_ENV_PATIENCE:.0f} s"
    except OSError as problem:
        raise EnvironmentProblem(
            str(problem), where="bash", remedy="Install bash: Spark's scripts need it"
        ) from problem
    if done is None or done.returncode != 0:
        raise EnvironmentProblem(why, where=str(file), remedy="Run it by hand and see; spark-submit reads it, too")
    told = (entry.decode(errors="surrogateescape").partition("=") for entry in done.stdout.split(b"\0") if entry)
    made = {name: value for name, _, value in told if name not in _OF_THE_SHELL}
    return made | {name: environ[name] for name in _OF_THE_SHELL & environ.keys()}


def find_fence(version: str, *, places: Sequence[Path] | None = None) -> Path:
    """The fence's jar for the Spark of this ``version`` ("4.2.1"): beside this file, else where Maven leaves it in a checkout.

    A jar says in its manifest which Spark lines it was built for; the traits it implements move between lines, and a wrong
    one would fail in the middle of a batch. Raises ``EnvironmentProblem`` for none, a wrong one and an unreadable one, and in a checkout
    for one of other sources than are there.
    """
    package = Path(__file__).resolve().parent
    if places is None:
        check_fence_is_of(package.parent / "jvm", package / "jars" / ".stamp")
    places = [package / "jars", package.parent / "jvm" / "target"] if places is None else places
    line = ".".join(version.split(".")[:2])
    remedy = f"Run `make jar` in a checkout, or install an understudy built for Spark {line}"
    others: list[str] = []
    for jar in (jar for place in places for jar in sorted(place.glob("*.jar"))):
        try:
            lines = _manifest(jar).get(SPARK_LINE)
        except (OSError, KeyError, UnicodeDecodeError, zipfile.BadZipFile) as problem:
            others.append(f"{jar} cannot be read ({problem})")
            continue
        if lines is None:  # sources, tests, or a foreign jar
            continue
        if line in {each.strip() for each in lines.split(",")}:
            return jar
        others.append(f"{jar} is for Spark {lines}")
    if others:
        raise EnvironmentProblem(f"Spark here is {version}, but {'; '.join(others)}", where="fence", remedy=remedy)
    looked = " or ".join(str(place) for place in places)
    raise EnvironmentProblem(f"the fence's jar for Spark {line} is not in {looked}", where="fence", remedy=remedy)


#: Names below hooks/jvm that no jar is made of.
_NO_SOURCES = frozenset({"target", "s3a", "test"})


def check_fence_is_of(sources: Path, stamp: Path) -> None:
    """In a checkout: raises ``EnvironmentProblem`` where the jar was built from other sources than are there.

    ``stamp`` holds what ``jar_key`` in tools/setup.sh says of the sources that a jar was built from; without it nothing is known.
    """
    if not (stamp.is_file() and sources.is_dir()):
        return
    found: list[Path] = []
    for directory, inside, files in os.walk(sources):
        inside[:] = [each for each in inside if each not in _NO_SOURCES]
        found += [Path(directory, each) for each in files if each not in _NO_SOURCES]
    named = sorted((each.relative_to(sources.parents[1]).as_posix(), each) for each in found)
    lines = (f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {name}\n" for name, each in named)
    if stamp.read_text().strip() != hashlib.sha256("".join(lines).encode()).hexdigest():
        raise EnvironmentProblem(
            f"the jar beside {stamp} was built from other sources than {sources} holds",
            where="fence",
            remedy="Run `make jar`",
        )


def _candidates(environ: Mapping[str, str], installed: Path) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield Path(on_path)
    for directory in sorted(installed.glob("*")):
        if (java := directory / "bin" / "java").exists():
            yield java


def _run(java: Path) -> Java | None:
    # Its own options could make it print, wait or fail; JAVA_TOOL_OPTIONS is Spark's business, not this question's.
    environ = {name: value for name, value in os.environ.items() if name not in _OPTIONS}
    try:
        answer = subprocess.run(
            [str(java), "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
            env=environ,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = answer.stderr + answer.stdout
    major, home = _MAJOR.search(said), _HOME.search(said)
    if answer.returncode != 0 or major is None or home is None:
        return None
    return Java(java, int(major[1]), Path(home[1]))


def _version_files(search: Sequence[str] | None) -> Iterator[str]:
    if search is None:
        spec = find_spec("pyspark")
        roots = list(spec.submodule_search_locations or ()) if spec else []
    else:
        roots = [str(Path(entry) / "pyspark") for entry in search]
    for root in roots:
        file = Path(root) / "version.py"
        if file.is_file():
            yield file.read_text(encoding="utf-8")


def _manifest(jar: Path) -> dict[str, str]:
    with zipfile.ZipFile(jar) as archive:
        text = archive.read("META-INF/MANIFEST.MF").decode("utf-8")
    # Lines of a manifest are wrapped at 72 bytes and go on with one space.
    unwrapped = text.replace("\r\n", "\n").replace("\n ", "")
    pairs = (line.partition(": ") for line in unwrapped.splitlines())
    return {name: value for name, separator, value in pairs if separator}
