"""What a script meets on a standby and at the grant: a real driver process, led by hand."""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from queue import Empty

import pytest

from tests.spark.rig import Rig
from understudy.errors import ScriptProblem
from understudy.protocol.messages import Committed, Ended, Quiesce, Quiesced, RehearsalReport, Revoked, Roots

HEADER = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.readStream.schema("t timestamp, k string, v int").option("maxFilesPerTrigger", 1).csv("in")
"""


def feed(home: Path, *days: int) -> None:
    (home / "in").mkdir(parents=True, exist_ok=True)
    for day in days:
        part = home / f".{day}"
        part.write_text(f"2020-01-{day:02d} 00:00:00,a,{day}\n2020-01-{day:02d} 01:00:00,b,{day}\n")
        part.rename(home / "in" / f"{day}.csv")


def test_questions_wait_for_the_grant_and_time_outs_count_from_it(tmp_path: Path) -> None:
    feed(tmp_path, 1, 2)
    script = HEADER + (
        "q = rows.writeStream.queryName('kept').foreachBatch(lambda b, i: open('trace', 'a').write(f'{i}\\n')).start()\n"
        "print('started', flush=True)\n"
        "before = time.monotonic()\n"
        "ended = q.awaitTermination(1)\n"
        "print('awaited', ended, q.isActive, q.name, len(spark.streams.active), flush=True)\n"
        "while not Path('trace').exists(): time.sleep(0.02)\nq.stop()\n"
    )
    with Rig(tmp_path, script) as rig:
        standing = rig.wait_for(RehearsalReport)
        assert standing.held == "job.py:11"  # the question, not start()
        assert "awaited" not in rig.text()
        assert not (tmp_path / "trace").exists()
        assert not (tmp_path / "checkpoints").exists()  # a standby makes nothing
        rig.lead()
        rig.until(rig.output, "awaited False True kept 1")
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)
    assert (tmp_path / "checkpoints" / "kept" / "offsets" / "0").exists()


def test_every_question_of_a_query_and_of_the_list_of_them_waits_and_is_answered(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "import threading\n"
        "q = rows.writeStream.queryName('one').format('noop').start()\n"
        "m = spark.streams\n"
        "questions = dict(\n"
        "    id=lambda: q.id, runId=lambda: q.runId, name=lambda: q.name, isActive=lambda: q.isActive,\n"
        "    status=lambda: q.status['message'], lastProgress=lambda: q.lastProgress, recentProgress=lambda: q.recentProgress,\n"
        "    exception=lambda: q.exception(), explain=lambda: q.explain(), processAllAvailable=lambda: q.processAllAvailable(),\n"
        "    awaitTermination=lambda: q.awaitTermination(1), active=lambda: m.active, get=lambda: m.get(q.id),\n"
        "    awaitAnyTermination=lambda: m.awaitAnyTermination(1),\n"
        ")\n"
        "public = {name for name in vars(type(q)) | vars(type(q).__mro__[1]) if not name.startswith('_')} - {'stop'}\n"
        "public |= {name for name in vars(type(m)) if not name.startswith('_')}\n"
        "print('unasked', sorted(public - set(questions)), flush=True)\n"
        "def ask(name):\n"
        "    answer = questions[name]()\n"
        "    print(f'<{name}> {type(answer).__name__}\\n', end='', flush=True)\n"
        "for name in questions: threading.Thread(target=ask, args=(name,)).start()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.until(rig.output, "<name> str")
        rig.wait_for(RehearsalReport)
        time.sleep(0.5)
        assert "unasked ['addListener', 'removeListener', 'resetTerminated']" in rig.text()
        assert [line for line in rig.text().splitlines() if "<" in line] == ["<name> str"]
        rig.lead()
        said = {
            "id": "str",
            "runId": "str",
            "name": "str",
            "isActive": "bool",
            "status": "str",
            "active": "list",
            "recentProgress": "list",
            "exception": "NoneType",
            "explain": "NoneType",
            "awaitTermination": "bool",
            "processAllAvailable": "NoneType",
            "get": "StandIn",
            "awaitAnyTermination": "bool",
        }
        for name, kind in said.items():
            rig.until(rig.output, f"<{name}> {kind}")
        rig.until(rig.output, "<lastProgress>")


def test_batch_writers_and_commands_wait_and_say_where(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "spark.range(3).createOrReplaceTempView('three')\n"
        "spark.sql('SHOW TABLES').collect()\n"
        "print('harmless done', flush=True)\n"
        "spark.range(3).write.mode('overwrite').parquet('batch')\n"
        "spark.sql('CREATE TABLE IF NOT EXISTS made (v BIGINT) USING parquet')\n"
        "spark.range(2).rdd.foreachPartition(lambda part: open('partition', 'a').write('x'))\n"
        "print('written', flush=True)\n"
    )
    with Rig(tmp_path, script) as rig:
        standing = rig.wait_for(RehearsalReport)
        assert standing.held == "job.py:11"
        assert standing.reason == "held at job.py:11, not rehearsed"
        rig.until(rig.output, "harmless done")
        assert not (tmp_path / "batch").exists()
        rig.lead()
        rig.until(rig.output, "written")
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)
        logged = [json.loads(line) for line in rig.fence_log.read_text().splitlines()]
    assert {line["op"] for line in logged} >= {"setupJob", "commitJob"}  # the fenced commit protocol wrote it


def test_a_closed_gate_holds_user_code_and_a_revoked_one_ends_the_script_through_every_except(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "spark.range(1).write.mode('overwrite').parquet('first')\n"
        "print('first', flush=True)\n"
        "while not Path('go').exists(): time.sleep(0.02)\n"
        "while True:\n"
        "    try:\n"
        "        spark.range(1).write.mode('overwrite').parquet('second')\n"
        "        print('second', flush=True); break\n"
        "    except Exception:\n"
        "        print('retrying', flush=True)\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        rig.until(rig.output, "first")
        rig.expire()
        (tmp_path / "go").touch()
        held = rig.wait_for(RehearsalReport)
        assert held.held == "job.py:13"
        assert rig.activity.running == 0  # it waits without counting as the user's code running
        rig.say(Revoked("over"))  # after 200 ms of a page that is revoked the JVM ends them both
        ended = rig.wait_for(Ended)
        assert ended.code == 75
        assert "may not write any more" in ended.error
    assert not (tmp_path / "second").exists()


def test_user_code_that_runs_is_counted_and_a_gate_that_reopens_lets_it_on(tmp_path: Path) -> None:
    feed(tmp_path, 1, 2)
    script = HEADER + (
        "def write(batch, number):\n"
        "    Path(f'in-{number}').touch()\n"
        "    while not Path(f'out-{number}').exists(): time.sleep(0.02)\n"
        "rows.writeStream.queryName('slow').foreachBatch(write).start().awaitTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        rig.until(tmp_path / "in-0", "")
        assert rig.activity.running == 1
        rig.expire()
        (tmp_path / "out-0").touch()
        give_up = time.monotonic() + 60
        while rig.activity.running:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        assert not (tmp_path / "checkpoints" / "slow" / "commits" / "0").exists()  # held behind the closed gate
        assert not (tmp_path / "in-1").exists()
        rig.lead()
        rig.until(tmp_path / "in-1", "")
        assert (tmp_path / "checkpoints" / "slow" / "commits" / "0").exists()


def test_a_leader_that_is_told_to_stop_waits_for_user_code_and_its_commit_and_for_no_other_query(
    tmp_path: Path,
) -> None:
    """However long it would wait for a commit: the other query's never comes."""
    feed(tmp_path, 1)
    script = HEADER + (
        "from understudy.driver import quiesce\n"
        "quiesce._COMMIT_MS = 600_000\n"
        "def write(batch, number):\n"
        "    Path('entered').touch()\n"
        "    while not Path('leave').exists(): time.sleep(0.02)\n"
        "@F.udf('string')\n"
        "def endless(v):\n"
        "    Path(here, 'computing').touch()\n"
        "    time.sleep(600)\n"
        "here = str(Path.cwd())\n"
        "rows.select(endless('v')).writeStream.queryName('other').option('checkpointLocation', 'other').format('noop').start()\n"
        "rows.writeStream.queryName('mine').foreachBatch(write).start().awaitTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        rig.until(tmp_path / "entered", "")
        rig.until(tmp_path / "computing", "")
        rig.say(Quiesce(600.0))
        with pytest.raises(Empty):
            rig.wait_for(Quiesced, timeout=1)
        (tmp_path / "leave").touch()
        assert not rig.wait_for(Quiesced, timeout=60).clean
        assert (tmp_path / "checkpoints" / "mine" / "commits" / "0").exists()


def test_a_leader_that_is_told_to_stop_does_not_wait_for_user_code_that_usually_takes_longer(tmp_path: Path) -> None:
    """Three batches take an hour each by the driver's clock; the fourth has just begun."""
    feed(tmp_path, 1, 2, 3, 4)
    script = HEADER + (
        "real, hours = time.monotonic, []\n"
        "time.monotonic = lambda: real() + 3600.0 * len(hours)\n"
        "def work(frame, batch):\n"
        "    if batch < 3:\n"
        "        return hours.append(batch)\n"
        "    Path('entered').touch()\n"
        "    while not Path('leave').exists(): time.sleep(0.02)\n"
        "rows.writeStream.queryName('mine').foreachBatch(work).start().awaitTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        rig.until(tmp_path / "entered", "")
        rig.say(Quiesce(600.0))
        assert not rig.wait_for(Quiesced, timeout=60).clean
        (tmp_path / "leave").touch()


@pytest.mark.parametrize("empty", [True, False])
def test_a_leader_that_is_told_to_stop_finishes_a_batch_only_if_it_is_empty(tmp_path: Path, empty: bool) -> None:
    """The window of the first day closes with the third: in the batch without rows that follows."""
    feed(tmp_path, 1)
    script = HEADER + (
        "here = str(Path.cwd())\n"
        "@F.udf('string')\n"
        "def slow(count):\n"
        "    Path(here, 'computing').touch()\n"
        "    while not Path(here, 'leave').exists(): time.sleep(0.02)\n"
        "    time.sleep(0.2)\n"
        f"counted = rows.withWatermark('t', '0 seconds').groupBy(F.window('t', '1 day')).count() if {empty} else rows\n"
        "counted.select(slow(F.col(counted.columns[-1]))).writeStream.format('noop')"
        ".option('checkpointLocation', 'checkpoints/it').start().awaitTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        if empty:
            rig.wait_for(Committed)
            feed(tmp_path, 3)
        rig.until(tmp_path / "computing", "")
        rig.say(Quiesce(600.0))
        if not empty:
            assert not rig.wait_for(Quiesced).clean
        (tmp_path / "leave").touch()
        if empty:
            assert rig.wait_for(Quiesced).clean
            assert (tmp_path / "checkpoints" / "it" / "commits" / "2").exists()


def test_python_workers_hold_the_proof_of_life(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "@F.udf('string')\n"
        "def who(v):\n"
        "    import os\n"
        "    alive = os.environ['UNDERSTUDY_ALIVE']\n"
        "    mine = [n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)"
        " and os.path.samefile('/proc/self/fd/' + n, alive)]\n"
        "    return str(len(mine))\n"
        "rows.select(who('v').alias('held')).writeStream.queryName('held').format('text').start('out').awaitTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        rig.wait_for(Committed)
    written = "".join(part.read_text() for part in (tmp_path / "out").glob("part-*"))
    assert set(written.split()) == {"1"}


def test_a_query_without_name_and_checkpoint_is_refused_and_analysis_errors_surface_at_start(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "try:\n"
        "    rows.groupBy('k').count().writeStream.queryName('x').format('noop').start()\n"  # append without watermark
        "except Exception as error:\n"
        "    print(type(error).__name__, flush=True)\n"
        "rows.writeStream.foreachBatch(lambda batch, number: None).start()\n"
    )
    with Rig(tmp_path, script) as rig:
        ended = rig.wait_for(Ended)
        assert ended.code == ScriptProblem.exit_code
        assert "neither a checkpoint location nor a name" in ended.error
        assert "AnalysisException" in rig.text()


def test_a_second_attempt_is_fenced_from_its_predecessor_in_place(tmp_path: Path) -> None:
    """Attempt in the token: the same holder starts again under the same epoch, and the old driver, thawed, is refused."""
    feed(tmp_path, 1)
    script = HEADER + (
        "def slow(batch, number):\n"
        "    Path('running').touch()\n"
        "    while not Path('go').exists(): time.sleep(0.02)\n"
        "rows.writeStream.queryName('one').foreachBatch(slow).start().awaitTermination()\n"
    )
    with Rig(tmp_path, script) as old:
        old.lead(epoch=4, attempt=1)
        old.until(tmp_path / "running", "")
        (claim,) = (tmp_path / "checkpoints" / "one" / "_understudy").glob("claim@1")
        raised = {**json.loads(claim.read_text()), "token": 4 << 32 | 2}
        claim.with_name("claim@2").write_text(json.dumps(raised))
        (tmp_path / "go").touch()
        old.until(old.fence_log, "refused")
        assert not (tmp_path / "checkpoints" / "one" / "commits" / "0").exists()


def test_two_queries_of_one_name_the_first_one_runs_and_the_script_is_told_once(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "one = rows.writeStream.queryName('same').option('checkpointLocation', 'one').format('noop').start()\n"
        "two = rows.writeStream.queryName('same').option('checkpointLocation', 'two').format('noop').start()\n"
        "for question in (lambda: two.isActive, lambda: two.stop()):\n"
        "    try:\n"
        "        question()\n"
        "    except Exception as error:\n"
        "        print('told:', type(error).__name__, flush=True)\n"
        "print('active', [query.id == one.id for query in spark.streams.active], flush=True)\n"
        "one.stop()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.wait_for(RehearsalReport)
        rig.lead()
        rig.until(rig.output, "active [True]")
        assert rig.text().count("told: IllegalArgumentException") == 2
        assert rig.wait_for(Ended).code == 0


def test_a_query_that_is_started_again_and_again_is_one_query(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "for round in range(4):\n"
        "    try:\n"
        "        query = rows.writeStream.queryName('again').foreachBatch(lambda batch, number: 1 // (round > 2)).start()\n"
        "        query.processAllAvailable()\n"
        "        print('through', round, len(spark.streams.active), flush=True)\n"
        "        query.stop()\n"
        "    except Exception as error:\n"
        "        print('failed', round, type(error).__name__, flush=True)\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.wait_for(RehearsalReport)
        rig.lead()
        rig.until(rig.output, "through 3 1")
        assert [line for line in rig.text().splitlines() if line.startswith("failed")] == [
            f"failed {number} StreamingQueryException" for number in range(3)
        ]
        assert rig.wait_for(Ended).code == 0


@pytest.mark.parametrize("call", ["getOrCreate", "create"])
def test_a_connect_session_is_refused_with_the_reason(tmp_path: Path, call: str) -> None:
    script = f"from pyspark.sql import SparkSession\nSparkSession.builder.remote('sc://elsewhere').{call}()\n"
    with Rig(tmp_path, script) as rig:
        ended = rig.wait_for(Ended)
        assert ended.fatal
        assert "SparkSession.builder.remote('sc://elsewhere')" in ended.error
        assert "a Spark Connect session has its driver elsewhere" in ended.error


@pytest.mark.parametrize(("variable", "value"), [("SPARK_REMOTE", "sc://elsewhere"), ("SPARK_API_MODE", "connect")])
def test_connect_is_refused_wherever_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with Rig(tmp_path, "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n") as rig:
        ended = rig.wait_for(Ended)
        assert ended.fatal
        assert f"{variable}: a Spark Connect session has its driver elsewhere" in ended.error


@pytest.mark.parametrize("modules", ["lib/wanted.py,packed.zip", "file://{home}/lib/want*.py,file:{home}/*.zip"])
def test_modules_of_py_files_can_be_imported_before_there_is_a_session(tmp_path: Path, modules: str) -> None:
    tmp_path.joinpath("lib").mkdir()
    (tmp_path / "lib" / "wanted.py").write_text("ANSWER = 41\n")
    (tmp_path / "lib" / "unwanted.py").write_text("")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed/__init__.py", "MORE = 1\n")
    script = (
        "import importlib.util, wanted, packed\n"
        "print('imported', wanted.ANSWER + packed.MORE, importlib.util.find_spec('unwanted'), flush=True)\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "print('on workers', spark.sparkContext.range(1).map(lambda _: __import__('wanted').ANSWER).collect(), flush=True)\n"
    )
    with Rig(tmp_path, script, submit=("--py-files", modules.format(home=tmp_path))) as rig:
        rig.until(rig.output, "imported 42 None")
        rig.until(rig.output, "on workers [41]")


@pytest.mark.parametrize(("rows_per_hour", "goes_on"), [(10**9, True), (2, False)])
def test_rehearsals_wait_once_they_have_read_what_was_agreed(tmp_path: Path, rows_per_hour: int, goes_on: bool) -> None:
    feed(tmp_path, 1)
    script = HEADER + "rows.writeStream.queryName('kept').format('noop').start().awaitTermination()\n"
    with Rig(tmp_path, script, rehearse="live", rounds=1, every=0.1, rows_per_hour=rows_per_hour) as rig:
        assert rig.wait_for(RehearsalReport).rounds == 1
        if goes_on:
            assert rig.wait_for(RehearsalReport).rounds == 2
        else:
            with pytest.raises(Empty):
                rig.wait_for(RehearsalReport, timeout=5)


def test_a_query_that_is_declared_while_another_thread_is_held_is_rehearsed(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "import threading\n"
        "threading.Thread(target=lambda: spark.range(1).write.parquet('batch')).start()\n"
        "while not Path('go').exists(): time.sleep(0.02)\n"
        "rows.writeStream.queryName('kept').format('noop').start().awaitTermination()\n"
    )
    with Rig(tmp_path, script, rehearse="live", rounds=1) as rig:
        assert rig.wait_for(RehearsalReport).reason.endswith("not rehearsed")
        (tmp_path / "go").touch()
        while not rig.wait_for(RehearsalReport).rehearsed:
            pass
    assert not (tmp_path / "batch").exists()


def test_the_directory_of_a_table_is_claimed_wherever_the_catalog_keeps_it(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "spark.sql('CREATE DATABASE shop')\n"
        "spark.sql(\"CREATE TABLE shop.old (k string) USING json LOCATION 'elsewhere'\")\n"
        "spark.sql('USE shop')\n"
        "def into(table, format, **options):\n"
        "    writer = rows.select('k').writeStream.queryName(table).options(**options)\n"
        "    writer.toTable(table, format=format)\n"
        "into('old', 'json')\n"
        "into('spark_catalog.default.managed', 'parquet')\n"
        "into('beside', 'orc', path='beside')\n"
        "into('far', 'parquet', path=str(Path('far').absolute()))\n"
        "for query in spark.streams.active: query.processAllAvailable()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        assert rig.wait_for(Ended).code == 0, rig.text()
    below = {
        name: {path.parent for path in tmp_path.rglob(name)} for name in ("_understudy", "commits", "_spark_metadata")
    }
    assert len(below["_spark_metadata"]) == len(below["commits"]) == 4
    assert below["_understudy"] == below["commits"] | below["_spark_metadata"]


def test_a_file_sink_is_claimed_before_it_is_read_whatever_its_format_is_called(tmp_path: Path) -> None:
    """Spark passes over batches that a sink's log has: those of another job would be lost, and committed."""
    feed(tmp_path, 1)
    formats = {
        "short": "xml",
        "class": "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat",
        "newer": "org.apache.spark.sql.execution.datasources.v2.json.JsonDataSourceV2",
    }
    script = HEADER + (
        f"for name, format in {formats}.items():\n"
        "    writer = rows.select('k').writeStream.queryName(name).format(format).option('rowTag', 'row')\n"
        "    writer.start(f'out/{name}')\n"
        "for query in spark.streams.active: query.processAllAvailable()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.lead()
        assert rig.wait_for(Ended).code == 0, rig.text()
    claimed = {root for said in rig.said if isinstance(said, Roots) for root in said.roots}
    assert {f"file:{tmp_path}/out/{name}" for name in formats} <= claimed
    assert {path.parent.name for path in (tmp_path / "out").rglob("_spark_metadata")} == formats.keys()


def test_a_leaders_statements_are_not_looked_into(tmp_path: Path) -> None:
    script = (
        "from pyspark.sql import SparkSession\n"
        "import understudy.driver.spark_patches.writers as writers\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "spark.sparkContext.setLogLevel('OFF')\n"
        "stock, looked = writers.effect_of, []\n"
        "writers.effect_of = lambda session, *text: looked.append(text) or stock(session, *text)\n"
        "spark.sql('SELECT 1')\n"
        "spark.sql('CREATE TABLE made (a int) USING json')\n"
        "spark.sql('INSERT INTO made VALUES (1)')\n"
        "print('looked into', len(looked), 'rows', spark.sql('SELECT * FROM made').count())\n"
    )
    with Rig(tmp_path, script) as rig:
        assert rig.wait_for(RehearsalReport).held == "job.py:8"
        rig.lead()
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)
        assert "looked into 2 rows 1" in rig.text()
