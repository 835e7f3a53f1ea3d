"""What spark-submit's options say, as far as a replica has to know."""

from __future__ import annotations

import glob
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from understudy.addresses import bracketed
from understudy.errors import SettingsError

#: Options that name several things: what a script names comes on top of what the command line names.
_LISTS = ("--packages", "--exclude-packages", "--repositories", "--jars", "--py-files", "--files", "--archives")

#: Those of them that name files, and the settings they stand for.
FILES: Mapping[str, str] = {
    "--jars": "spark.jars",
    "--py-files": "spark.submit.pyFiles",
    "--files": "spark.files",
    "--archives": "spark.archives",
}

#: Options of spark-submit that take a value and make sense in client mode.
WITH_VALUE = frozenset(
    "--master --name --conf -c --jars --packages --exclude-packages --repositories --py-files --files --archives"
    " --properties-file --driver-memory --driver-java-options --driver-library-path --driver-class-path --executor-memory"
    " --driver-cores --total-executor-cores --executor-cores --num-executors --queue --principal --keytab --proxy-user"
    " --deploy-mode".split()
)
FLAGS = frozenset(("--verbose", "-v", "--load-spark-defaults"))

#: What stands for the application where PySpark starts the JVM.
SHELL = "pyspark-shell"

#: What makes a name an address: of a file on this machine, or elsewhere.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://(?=/))?(.*)", re.DOTALL)
_HERE = ("file", "local")
_PATTERN = re.compile(r"[*?\[]")

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"^((?:\\.|[^\\\s=:])+)[ \t\f]*[=:]?[ \t\f]*")


def parsed(submit: Iterable[str]) -> Iterator[tuple[str, str | None, tuple[str, ...]]]:
    """Each option with its value and the words that it was written in, from left to right; spark-submit takes the last of two.

    The value is ``None`` for a flag, for an option at the end that lacks its value, and for a word that is no option. No word is read
    before it is needed, so that the words after a script stay in an iterator.
    """
    words = iter(submit)
    for word in words:
        name, _, value = word.partition("=")
        if word in WITH_VALUE:
            following = next(words, None)
            yield "--conf" if word == "-c" else word, following, (word,) if following is None else (word, following)
        elif name in WITH_VALUE and name.startswith("--") and value:
            yield name, value, (word,)
        else:
            yield word, None, (word,)


def settings_of(submit: Sequence[str]) -> dict[str, str]:
    """The ``--conf key=value`` of spark-submit options, in each of its spellings."""
    pairs = (value.partition("=") for name, value, _ in parsed(submit) if name == "--conf" and value is not None)
    return {key.strip(): value for key, _, value in pairs}


def option(submit: Sequence[str], name: str, setting: str) -> str:
    """The value of an option such as ``--master``, else of the setting it stands for; empty if neither is given."""
    given = [value for each, value, _ in parsed(submit) if each == name and value is not None]
    return given[-1] if given else settings_of(submit).get(setting, "")


def with_bracketed_hosts(submit: Sequence[str]) -> list[str]:
    """``submit`` with IPv6 addresses of the driver in brackets: Kubernetes gives a pod's address without, Spark refuses it so."""
    return [_bracketed_host(word) for word in submit]


def _bracketed_host(word: str) -> str:
    setting, equals, value = word.rpartition("=")
    if setting.removeprefix("--conf=") in ("spark.driver.host", "spark.driver.bindAddress"):
        return f"{setting}{equals}{bracketed(value)}"
    return word


def without(submit: Sequence[str], name: str, setting: str = "") -> list[str]:
    """``submit`` without the option ``name`` and its value, and without every ``--conf`` of ``setting``."""
    return [
        word
        for each, value, words in parsed(submit)
        if each != name and not (each == "--conf" and setting and (value or "").partition("=")[0].strip() == setting)
        for word in words
    ]


def merged(script: str, operator: Sequence[str]) -> list[str]:
    """A script's own ``PYSPARK_SUBMIT_ARGS`` and the options of the command line, which come last and win.

    Raises ``ValueError`` for a quotation without an end.
    """
    return combined(list(itertools.takewhile(lambda word: word != SHELL, shlex.split(script))), operator)


def combined(own: Sequence[str], operator: Sequence[str]) -> list[str]:
    """``own`` options, and those of ``operator``, which come last and win.

    Of the packages, jars and files that both name, all count: spark-submit would take the last list alone.
    """
    given = list(operator)
    for name in _LISTS:
        first, second = option(own, name, ""), option(given, name, "")
        if first and second:
            given = [*without(given, name), name, f"{first},{second}"]
    return [*own, *given]


def properties(text: str) -> dict[str, str]:
    """A file of properties as Java reads it; Spark trims the values."""
    found = {}
    for line in _logical_lines(text):
        if (key := _KEY.search(line)) is not None:
            found[_unescaped(key[1])] = _unescaped(line[key.end() :]).strip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    whole = ""
    for line in re.split(r"\r\n|\r|\n", text):
        part = line.lstrip(" \t\f")
        if not whole and part.startswith(("#", "!")):
            continue
        if (len(part) - len(part.rstrip("\\"))) % 2:  # an odd number of them: the line goes on
            whole += part[:-1]
            continue
        yield whole + part
        whole = ""
    if whole:
        yield whole


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return _ESCAPED.sub(one, text)


def all_settings(submit: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The settings that spark-submit starts with: of its options, above those of ``--properties-file`` or ``spark-defaults.conf``.

    A file that is not there is none: spark-submit says so. Raises ``SettingsError`` for one that cannot be read.
    """
    home, directory = environ.get("SPARK_HOME"), environ.get("SPARK_CONF_DIR")
    defaults = Path(directory or (f"{home}/conf" if home else ""), "spark-defaults.conf")
    given = option(submit, "--properties-file", "")
    files = [Path(given)] if given else []
    if not given or any(name == "--load-spark-defaults" for name, _, _ in parsed(submit)):
        files.insert(0, defaults)
    found: dict[str, str] = {}
    for file in files:
        found |= _properties_of(file)
    return found | settings_of(submit)


def _properties_of(file: Path) -> dict[str, str]:
    try:
        return properties(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else {}
    except OSError as error:
        what = f"it cannot be read: {error.strerror or error}"
        raise SettingsError(what, where=str(file), remedy="See who may read it") from error


def deploy_mode(submit: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str]:
    """``client`` or ``cluster``, and what says so; in the order in which spark-submit looks."""
    if given := option(submit, "--deploy-mode", ""):
        return given, "--deploy-mode"
    if given := all_settings(submit, environ).get("spark.submit.deployMode", ""):
        return given, "spark.submit.deployMode"
    return environ.get("DEPLOY_MODE") or "client", "DEPLOY_MODE"


def started_with(submit: Sequence[str], environ: Mapping[str, str], name: str, setting: str) -> str:
    """As ``option``, and from the files of ``all_settings`` where neither is given; empty where it is in none of them."""
    return option(submit, name, "") or all_settings(submit, environ).get(setting, "")


def local_files(submit: Sequence[str], environ: Mapping[str, str], name: str, setting: str) -> list[Path]:
    """Files on this machine among those that ``started_with`` lists, without what they are to be called (``env.tgz#env``).

    Those that a pattern stands for now are found as Hadoop finds them, hidden ones as well. Raises ``SettingsError`` for a file of settings
    that cannot be read.
    """
    parts = (part.strip().partition("#")[0] for part in started_with(submit, environ, name, setting).split(","))
    return [path for part in parts if part for path in files_at(part) or ()]


def files_at(name: str) -> list[Path] | None:
    """What a path, an address or a pattern names on this machine; a path need not be there. ``None`` for an address of something elsewhere."""
    address = _ADDRESS.fullmatch(name)
    if address is not None and address[1].lower() not in _HERE:
        return None
    path = name if address is None else unquote(address[2])
    if not _PATTERN.search(path):
        return [Path(path)]
    found = glob.glob(path.replace("[^", "[!"), include_hidden=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(each for each in map(Path, found) if each.is_file())


def is_native(submit: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether executors are pods of a Kubernetes cluster. Raises ``SettingsError`` for a file of settings that cannot be read."""
    master = started_with(submit, environ, "--master", "spark.master") or environ.get("MASTER", "")
    return master.startswith("k8s://")


def executors_wanted(submit: Sequence[str], environ: Mapping[str, str]) -> int:
    """How many executors a job runs with: Spark's own default is two. 0 if Spark decides by load.

    Raises ``SettingsError`` for what is no number, and for a file of settings that cannot be read.
    """
    settings = all_settings(submit, environ)
    if settings.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        return 0
    given = option(submit, "--num-executors", "") or settings.get("spark.executor.instances", "")
    try:
        return int(given or 2)
    except ValueError:
        raise SettingsError(
            f"{given!r} is no number of executors", where="--num-executors", remedy="Write --num-executors 2"
        ) from None
