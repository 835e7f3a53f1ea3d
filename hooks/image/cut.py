"""Cuts from an installed PySpark what neither a driver nor an executor needs, and lays out what is left for the image.

    python hooks/image/cut.py --packages DIR --add JAR... --machine amd64 --keep hive,ml --to DIR

``--packages`` is what an installer wrote with ``--target``; it is left as it is. Into ``--to`` go ``python/`` (packages),
``spark/`` (Spark's jars and scripts, with the jars of ``--add``) and ``jni/`` (the native libraries of those jars). All users may
read what is in ``--to`` then, which is what the image is built from. Prints a table: what was cut, how many bytes, and why.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Cut:
    """Files left out unless ``--keep`` names the cut: patterns of jars, and of paths below site-packages."""

    name: str
    why: str
    jars: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    always: bool = False


#: The order counts: the first cut that names a file gets it.
CUTS = (
    Cut(
        "connect",
        "Spark Connect and what runs on it: understudy refuses such sessions, they have no driver of their own",
        ("connect-repl/*", "spark-connect_*", "spark-pipelines_*"),
        ("pyspark/sql/connect/*", "pyspark/pipelines/*"),
    ),
    Cut(
        "ml",
        "MLlib and GraphX: Python's half wants NumPy, which is not here either",
        (
            *("spark-mllib*", "spark-graphx_*", "breeze*", "spire*", "cats-kernel_*", "algebra_*"),
            *("arpack*", "blas-*", "lapack-*", "JTransforms-*", "JLargeArrays-*", "jaxb-*", "istack-*"),
        ),
        ("pyspark/ml/*", "pyspark/mllib/*"),
    ),
    Cut(
        "hive",
        "Hive's metastore and Thrift server, and Derby",
        (
            *(
                "spark-hive*",
                "hive-[!s]*",
                "hive-ser*",
                "hive-shims*",
                "derby*",
                "datanucleus-*",
                "javax.jdo-*",
                "jdo-api-*",
            ),
            *("HikariCP-*", "javolution-*", "libthrift-*", "libfb303-*", "opencsv-*", "ST4-*", "antlr-runtime-*"),
            *("jpam-*", "json-1.8*", "stax-api-*", "super-csv-*", "jta-*", "transaction-api-*", "commons-dbcp-*"),
            *("jline-2*", "joda-time-*"),
        ),
    ),
    Cut("repl", "Scala's shell and compiler", ("spark-repl_*", "scala-compiler-*", "jline-*", "java-diff-utils-*")),
    Cut("yarn", "the cluster manager of Hadoop", ("spark-yarn_*",)),
    Cut(
        "zookeeper",
        "recovery of standalone masters",
        ("zookeeper-*", "curator-*", "audience-annotations-*"),
    ),
    Cut("pandas", "the pandas API: wants pandas and PyArrow, which are not here", (), ("pyspark/pandas/*",)),
    Cut(
        "colours",
        "typer's optional colours",
        (),
        ("pygments*/*", "rich*/*", "markdown_it*/*", "mdurl*/*"),
    ),
    Cut(
        "rest",
        "examples, tests, copies, type stubs, caches and scripts for people",
        (),
        (
            *("pyspark/examples/*", "pyspark/data/*", "pyspark/python/*", "pyspark/sbin/*", "pyspark/bin/*.cmd"),
            *(
                "pyspark/bin/beeline",
                "pyspark/bin/docker-image-tool.sh",
                "pyspark/bin/run-example",
                "pyspark/bin/spark-*shell",
            ),
            *("pyspark/bin/spark-pipelines", "pyspark/bin/spark-sql", "pyspark/bin/sparkR", "bin/*", "share/*"),
            *("*/tests/*", "*/__pycache__/*", "*.pyi", "*.dist-info/RECORD", ".lock"),
        ),
        always=True,
    ),
)

_NATIVE = re.compile(r"\.(so|dll|dylib|jnilib|a)$")

#: How jars name what this machine can load: ``linux/amd64/``, ``Linux-x86_64``, ``librocksdbjni-linux64.so``, …
_OURS = {
    "amd64": re.compile(r"(^|[/_-])linux(64\.so|64/|[/_-](amd64|x86_64)[/.])|epoll_x86_64\.so", re.IGNORECASE),
    "arm64": re.compile(r"(^|[/_-])linux[/_-](aarch64|aarch_64)[/.]|epoll_aarch_64\.so", re.IGNORECASE),
}

#: Does not look where the JVM does; without its library it falls back to Java's own ciphers.
_UNPACKS_ONLY = "commons-crypto-"


def cut_of(cuts: Sequence[Cut], path: PurePosixPath) -> Cut | None:
    """Which cut, if any, takes this file; ``path`` is relative to site-packages."""
    text = str(path)
    jar = text.removeprefix("pyspark/jars/")
    for cut in cuts:
        if jar != text and any(fnmatchcase(jar, pattern) for pattern in cut.jars):
            return cut
        if any(fnmatchcase(text, pattern) for pattern in cut.paths):
            return cut
    return None


def natives(names: Iterable[str], machine: str) -> tuple[set[str], set[str]]:
    """The native libraries among a jar's entries: those this machine can load, and the others."""
    libraries = {name for name in names if _NATIVE.search(name)}
    ours = {name for name in libraries if _OURS[machine].search(name)}
    return ours, libraries - ours


def has_classes(names: Iterable[str]) -> bool:
    return any(name.endswith(".class") and not name.startswith("META-INF/") for name in names)


def copy_jar(jar: Path, to: Path, jni: Path, machine: str) -> int:
    """Copy without native libraries: ours go to ``jni``, where the JVM looks first; others nowhere. Returns the bytes saved.

    Each would unpack its library into /tmp at every start, where it takes memory and, if /tmp is mounted ``noexec``, cannot be
    loaded. A jar of nothing but foreign libraries is not copied at all.
    """
    with zipfile.ZipFile(jar) as source:
        names = source.namelist()
        ours, others = natives(names, machine)
        if jar.name.startswith(_UNPACKS_ONLY):
            ours = set()
        if not ours and not others:
            shutil.copyfile(jar, to)
            return 0
        if not ours and not has_classes(names):
            return jar.stat().st_size
        jni.mkdir(parents=True, exist_ok=True)
        for name in ours:
            (jni / PurePosixPath(name).name).write_bytes(source.read(name))
        with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
            for entry in source.infolist():
                if entry.filename not in ours | others:
                    target.writestr(entry, source.read(entry), entry.compress_type)
            if jar.name.startswith("snappy-java-"):  # all others look there unasked
                target.writestr("org-xerial-snappy.properties", "org.xerial.snappy.use.systemlib=true\n")
    return (
        jar.stat().st_size - to.stat().st_size - sum((jni / PurePosixPath(name).name).stat().st_size for name in ours)
    )


def files(packages: Path) -> Iterator[PurePosixPath]:
    for path in sorted(packages.rglob("*")):
        if path.is_file():
            yield PurePosixPath(path.relative_to(packages))


def lay_out(packages: Path, to: Path, machine: str, keep: frozenset[str]) -> list[tuple[str, int, str]]:
    """Copy what stays. Returns the table: name, bytes cut, reason."""
    cuts = [cut for cut in CUTS if cut.always or cut.name not in keep]
    saved = dict.fromkeys((cut.name for cut in cuts), 0)
    libraries = 0
    for path in files(packages):
        source = packages / path
        if cut := cut_of(cuts, path):
            saved[cut.name] += source.stat().st_size
            continue
        if path.parts[:2] in {("pyspark", "jars"), ("pyspark", "bin")}:
            target = to / "spark" / path.relative_to("pyspark")
        else:
            target = to / "python" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jar":
            libraries += copy_jar(source, target, to / "jni", machine)
        else:
            shutil.copy(source, target)
    return [
        *((cut.name, saved[cut.name], cut.why) for cut in cuts),
        ("natives", libraries, f"libraries inside jars for other systems than Linux on {machine}"),
    ]


def open_to_all(context: Path) -> None:
    """The image's user reads all of it, and executes what its owner may; the umask of this machine does not count."""
    for path in (context, *context.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--add", type=Path, nargs="*", default=[], help="jars that Spark shall load beside its own")
    parser.add_argument("--machine", choices=sorted(_OURS), required=True)
    parser.add_argument("--keep", default="", help="names of cuts that are not to be made, separated by commas")
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    keep = frozenset(name for name in options.keep.split(",") if name)
    if unknown := keep - {cut.name for cut in CUTS if not cut.always}:
        parser.error(f"no such cut: {', '.join(sorted(unknown))}")
    for part in ("python", "spark", "jni"):
        shutil.rmtree(options.to / part, ignore_errors=True)

    before = sum((options.packages / path).stat().st_size for path in files(options.packages))
    table = lay_out(options.packages, options.to, options.machine, keep)
    for part in ("jars", "bin"):  # PySpark looks for both beside itself, Spark's own scripts in SPARK_HOME
        (options.to / "python" / "pyspark" / part).symlink_to(f"/opt/spark/{part}")
    for jar in options.add:
        shutil.copy(jar, options.to / "spark" / "jars" / jar.name)
    open_to_all(options.to)

    left = before - sum(size for _, size, _ in table)
    rows = [("installed", before, ""), *((f"- {name}", size, why) for name, size, why in table), ("left", left, "")]
    sys.stdout.writelines(f"{name:12} {size / 1e6:7.1f} MB  {why}".rstrip() + "\n" for name, size, why in rows)


if __name__ == "__main__":
    main()
