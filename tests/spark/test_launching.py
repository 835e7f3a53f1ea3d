"""How a script is launched: as spark-submit would, told by the script itself under both; and what else scripts do at their start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER, feed
from understudy.protocol.messages import Ended, RehearsalReport
from understudy.supervisor.heap import WHOLE_HEAP, regions
from understudy.supervisor.workspace import Workspace, Workspaces

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: What differs under spark-submit, and stands in docs/what-runs-where.md: the JVM comes later here, PySpark is the one that is
#: installed, and a driver is found by its mark. The rest of them is the shell's, and the test's own.
DIFFERS = (
    *("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYTHONPATH", "UNDERSTUDY_ALIVE", "UNDERSTUDY_HOLDER"),
    *("_", "SHLVL", "PWD", "OLDPWD", "TOLD"),
)

TELLS = """
import argparse, json, os, signal, sys
from collections.abc import Iterator
from pathlib import Path

spark_home = os.environ.get("SPARK_HOME", "")
surroundings = {
    "environment": {name: value for name, value in os.environ.items() if name not in DIFFERS},
    "flags": {name: getattr(sys.flags, name) for name in FLAGS},
    "hash": hash("payments"),
    "installed": [each for each in sys.path if each.startswith(sys.base_prefix) and not each.startswith(spark_home)],
    "signals": {int(each): str(signal.getsignal(each)) for each in signal.valid_signals()},
    "main": {name: repr(globals().get(name)) for name in ("__name__", "__package__", "__spec__", "__doc__", "__annotations__")},
    "is main": sys.modules["__main__"].__dict__ is globals(),
    "umask": os.umask(0o22),
    "recursion": sys.getrecursionlimit(),
}
import beside
import iniconfig, shipped  # of --py-files, before there is a session; the first is installed as well
from zipped import inside
from pyspark import SparkFiles
from pyspark.sql import SparkSession

parser = argparse.ArgumentParser()
parser.add_argument("--name", required=True)
parser.add_argument("rest", nargs="*")

def main():
    spark = SparkSession.builder.config("spark.test.d", "builder").config("spark.sql.test.e", "builder").getOrCreate()
    spark.conf.set("spark.sql.test.e", "session")
    told = {
        **surroundings,
        "argv": sys.argv, "file": __file__, "path": sys.path[0], "cwd": os.getcwd(), "arguments": vars(parser.parse_args()),
        "settings": {key: spark.conf.get(key, None) for key in map("spark.test.{}".format, "abcd")},
        "sql": spark.conf.get("spark.sql.test.e"), "app": spark.sparkContext.appName, "progress": spark.sparkContext.getConf().get("spark.ui.showConsoleProgress", "false"), "master": spark.sparkContext.master,
        "modules": [beside.VALUE, shipped.VALUE, inside.VALUE, iniconfig.VALUE],
        "workers": sorted(set(spark.range(4).rdd.map(lambda row: [__import__(name).VALUE for name in ("shipped", "iniconfig")]).map(tuple).collect())),
        "files": Path(SparkFiles.get("table.txt")).read_text(),
    }
    Path(os.environ["TOLD"]).write_text(json.dumps(told))

if __name__ == "__main__":
    main()
""".replace("DIFFERS", repr(DIFFERS)).replace(
    "FLAGS", repr([name for name in sys.flags.__match_args__ if name != "safe_path"])
)


LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = OURS %p %m%n%ex
"""


def laid_out(home: Path, modules: Sequence[str], in_file: str = "") -> list[str]:
    """A project as people have it, and spark-submit's options for it: of a, b, c and d each is set in one place more.

    ``modules``: the option that names those in ``lib``, if ``in_file``, a line of the file of settings, does not.
    """
    (home / "lib").mkdir(parents=True)
    (home / "beside.py").write_text("VALUE = 'beside'\n")
    (home / "lib" / "shipped.py").write_text("VALUE = 'shipped'\n")
    (home / "lib" / "iniconfig.py").write_text("VALUE = 'ours'\n")
    (home / "lib" / "zipped").mkdir()
    (home / "lib" / "zipped" / "__init__.py").touch()
    (home / "lib" / "zipped" / "inside.py").write_text("VALUE = 'inside'\n")
    subprocess.run([sys.executable, "-m", "zipfile", "-c", "zipped.zip", "zipped"], cwd=home / "lib", check=True)
    (home / "table.txt").write_text("kept")
    (home / "conf").mkdir()
    (home / "conf" / "spark-env.sh").write_text("FROM_SPARK_ENV='so it is'\nunset TAKEN_BY_SPARK_ENV\n")
    (home / "conf" / "log4j2.properties").write_text(LOG4J)
    (home / "my.conf").write_text("".join(f"spark.test.{key} file\n" for key in "bcd") + in_file.format(home=home))
    return [
        *("--master", "local[2]", "--conf", "spark.ui.enabled=false", "--properties-file", "my.conf"),
        *("--conf", "spark.test.c=option", "--conf=spark.test.d=option", "--files", "table.txt"),
        *modules,
    ]


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """As a shell starts what it does not wait for: two signals are ignored, and stay so in all processes below."""
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGQUIT)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("in_the_background")
@pytest.mark.parametrize(
    ("modules", "in_file"),
    [
        (("--py-files", "lib/shipped.py,lib/iniconfig.py,lib/zipped.zip"), ""),
        ((), "spark.submit.pyFiles file:{home}/lib/shipped.py,lib/iniconfig.py,lib/*.zip\n"),
    ],
)
def test_a_script_finds_what_it_finds_under_spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: Sequence[str], in_file: str
) -> None:
    options = laid_out(tmp_path, modules, in_file)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("TAKEN_BY_SPARK_ENV", "yes")
    told: dict[str, dict[str, Any]] = {}
    arguments = ["--name", "x y", "--", "-1", ""]
    for who in ("understudy", "submit"):
        monkeypatch.setenv("TOLD", str(tmp_path / who))
        if who == "understudy":
            with Rig(tmp_path, TELLS, *arguments, submit=options) as rig:
                assert rig.wait_for(Ended).code == 0, rig.text()
                logged = rig.text()
        else:
            submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
            command = [str(submit), *options, "--conf", "spark.sql.shuffle.partitions=2", str(tmp_path / "job.py")]
            ended = subprocess.run(
                [*command, *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True
            )
            logged = ended.stderr.decode()
        assert "OURS INFO Submitted application: job.py" in logged, who
        assert "\r[Stage" not in logged, who
        told[who] = json.loads((tmp_path / who).read_text())
    ours, theirs = told["understudy"].pop("environment"), told["submit"]["environment"]
    assert {name: (ours.get(name), theirs.get(name)) for name in ours.keys() ^ theirs.keys()} == {}
    assert {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]} == {}
    del told["submit"]["environment"]
    assert told["understudy"] == told["submit"]
    assert told["submit"]["app"] == "job.py"
    assert told["submit"]["workers"] == [["shipped", "ours"]]
    assert theirs["FROM_SPARK_ENV"] == "so it is"
    assert theirs["PYTHONHASHSEED"] == "0"
    assert told["submit"]["settings"] == {
        "spark.test.a": None,
        "spark.test.b": "file",
        "spark.test.c": "option",
        "spark.test.d": "builder",
    }


def test_settings_of_spark_conf_dir_count_and_options_win_over_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.test.a defaults\nspark.test.b defaults\nspark.app.name ours\nspark.ui.showConsoleProgress true\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    script = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "print('has', spark.conf.get('spark.test.a'), spark.conf.get('spark.test.b'))\n"
        "print('is', spark.sparkContext.appName, spark.conf.get('spark.ui.showConsoleProgress'))\n"
    )
    with Rig(tmp_path, script, submit=("--conf", "spark.test.b=option")) as rig:
        rig.until(rig.output, "has defaults option")
        rig.until(rig.output, "is ours true")
        assert " INFO " not in rig.text(), "without a configuration of the user's, log4j logs from WARN on"


HOOKED = """
import sys
from pathlib import Path
def hook(kind, error, trace):
    Path("hooked").write_text(f"{kind.__name__} {error} {trace.tb_frame.f_code.co_filename} {error.__traceback__ is trace}")
    HOOK
sys.excepthook = hook
def fails():
    raise ValueError("no input")
fails()
"""


def test_an_exception_that_ends_a_script_meets_the_hook_that_the_script_has_set(tmp_path: Path) -> None:
    """Sentry and structlog report by it. Its traceback begins in the script, as under plain Python."""
    with Rig(tmp_path, HOOKED.replace("HOOK", "sys.__excepthook__(kind, error, trace)")) as rig:
        assert rig.wait_for(Ended) == Ended(1, "ValueError: no input", asked=False)
        assert "ValueError: no input" in rig.text()
        assert (tmp_path / "hooked").read_text() == f"ValueError no input {tmp_path / 'job.py'} True"
        assert "in fails" in rig.text()
        assert "understudy/driver" not in rig.text()


def test_a_hook_that_fails_is_reported_with_what_it_was_for(tmp_path: Path) -> None:
    with Rig(tmp_path, HOOKED.replace("HOOK", "raise OSError('no network')")) as rig:
        assert rig.wait_for(Ended) == Ended(1, "ValueError: no input", asked=False)
        assert "OSError: no network" in rig.text()
        assert "ValueError: no input" in rig.text()


def test_a_script_that_is_no_python_is_told_as_by_python(tmp_path: Path) -> None:
    with Rig(tmp_path, "def\n") as rig:
        assert rig.wait_for(Ended).code == 1
        assert "SyntaxError: invalid syntax" in rig.text()
        assert "Traceback" not in rig.text()


@pytest.mark.parametrize(
    ("end", "code", "error"),
    [
        ("sys.exit(3)", 3, "the script exited with code 3"),
        ("sys.exit('no input')", 1, "no input"),
        ("try:\n    1 / 0\nfinally:\n    print('tidied')", 1, "ZeroDivisionError: division by zero"),
        ("raise SystemExit", 0, ""),
    ],
)
def test_how_a_script_ends_is_told(tmp_path: Path, end: str, code: int, error: str) -> None:
    with Rig(tmp_path, f"import sys\n{end}\n") as rig:
        assert rig.wait_for(Ended) == Ended(code, error, asked=False)


def test_a_script_whose_libraries_fork_stands_by_and_takes_over(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = (
        "import multiprocessing, os, subprocess, time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork'))\n"
        "print('before', sorted(pool.map(abs, [-1, -2])), flush=True)\n" + HEADER + "def store(batch, number):\n"
        "    found = sorted(pool.map(abs, [-row.v for row in batch.collect()]))\n"
        "    Path(f'{number}').write_text(f'{found} {subprocess.check_output([\"echo\", \"x\"])}')\n"
        "query = rows.writeStream.queryName('forks').foreachBatch(store).start()\n"
        "if os.fork() == 0:\n"
        "    time.sleep(600)\n"
        "    os._exit(0)\n"
        "query.awaitTermination()\n"
    )
    with Rig(tmp_path, script, rehearse="live", every=0.5) as rig:
        rig.until(rig.output, "before [1, 2]")
        while not rig.wait_for(RehearsalReport).rehearsed:
            pass
        rig.lead()
        rig.until(tmp_path / "0", "[1, 1] b'x\\n'")
        feed(tmp_path, 2)
        rig.until(tmp_path / "1", "[2, 2] b'x\\n'")


def test_queries_of_several_sessions_keep_what_is_their_sessions_own(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "other = spark.newSession()\n"
        "for session, number in ((spark, 1), (other, 2)):\n"
        "    session.createDataFrame([('a', number)], 'k string, n int').createOrReplaceTempView('numbers')\n"
        "    session.udf.register('times', lambda v, number=number: v * number * 10, 'int')\n"
        "    session.conf.set('spark.sql.shuffle.partitions', number)\n"
        "    stream = session.readStream.schema('t timestamp, k string, v int').csv('in')\n"
        "    stream.createOrReplaceTempView('stream')\n"
        "    found = session.sql('SELECT k, n, times(v) AS v FROM stream JOIN numbers USING (k)')\n"
        "    found.writeStream.queryName(f'q{number}').format('json').start(f'out{number}')\n"
        "spark.streams.awaitAnyTermination()\n"
    )
    with Rig(tmp_path, script, rehearse="live", every=0.5) as rig:
        while not (standing := rig.wait_for(RehearsalReport)).rehearsed:
            assert not standing.reason, standing
        rig.lead()
        for number in (1, 2):
            rig.until(tmp_path / "checkpoints" / f"q{number}" / "commits" / "0", "{")
            rows = [part.read_text() for part in (tmp_path / f"out{number}").glob("*.json")]
            assert [json.loads(row) for row in rows if row] == [{"k": "a", "n": number, "v": number * 10}]


@pytest.mark.parametrize(
    ("own", "whole", "region", "block"),
    [
        ((), True, "8388608", "1m"),
        (
            ("--driver-java-options", "-Xms64m -XX:G1HeapRegionSize=2m", "--conf", "spark.broadcast.blockSize=2m"),
            False,
            "2097152",
            "2m",
        ),
    ],
)
def test_a_pods_driver_has_its_whole_heap_in_large_regions_and_small_broadcasts_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: tuple[str, ...], whole: bool, region: str, block: str
) -> None:
    script = HEADER + (
        "runtime = spark._jvm.java.lang.Runtime.getRuntime()\n"
        "whole = runtime.totalMemory() > 0.9 * runtime.maxMemory()\n"
        "diagnostic = spark._jvm.java.lang.Class.forName('com.sun.management.HotSpotDiagnosticMXBean')\n"
        "bean = spark._jvm.java.lang.management.ManagementFactory.getPlatformMXBean(diagnostic)\n"
        "region = bean.getVMOption('G1HeapRegionSize').getValue()\n"
        "print('heap', whole, region, spark.sparkContext.getConf().get('spark.broadcast.blockSize'))\n"
    )
    feed(tmp_path, 1)
    workspace = Workspace(Workspaces(tmp_path, f"{WHOLE_HEAP} {regions(own, {})}"))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", workspace.environment["SPARK_SUBMIT_OPTS"])
    with Rig(tmp_path, script, submit=own) as rig:
        rig.until(rig.output, f"heap {whole} {region} {block}")
    workspace.remove()
