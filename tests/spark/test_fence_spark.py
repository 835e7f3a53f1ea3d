"""The fence under Spark itself: streaming checkpoints in both directions, and batch writes of a frozen leader."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.doubles.pages import OPEN, STANDBY, token
from tests.spark.fence_env import (
    FENCE,
    LOST,
    OUTPUTS,
    SPARK_OPTIONS,
    STOCK,
    Driver,
    Job,
    claim_files,
    driver,
    refusal,
    seize,
    spark,
)
from tests.spark.in_force import unfenced

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("spark"), options=SPARK_OPTIONS) as made:
        made.extra["fenced"] = spark(made, FENCE)
        made.extra["stock"] = spark(made, STOCK)
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    shared.gate.write(OPEN, token(5, 1))
    yield shared
    shared.gate.write(STANDBY)


def run(one: Driver, session: Any, root: Path) -> None:
    """One AvailableNow run of a stateful query: lines of text, each once, to parquet."""
    lines = session.readStream().format("text").option("maxFilesPerTrigger", 1).load(str(root / "in"))
    now = one.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()
    writer = lines.dropDuplicates().writeStream().format("parquet").trigger(now)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer.start(str(root / "out")).awaitTermination()


def feed(root: Path, name: str, *lines: str) -> None:
    (root / "in").mkdir(parents=True, exist_ok=True)
    (root / "in" / name).write_text("\n".join(lines) + "\n")


def rows(session: Any, path: Path) -> list[str]:
    return sorted(row.getString(0) for row in session.read().parquet(str(path)).collectAsList())


def batches(root: Path, log: str) -> list[int]:
    return sorted(int(each.name) for each in (root / "checkpoint" / log).iterdir() if each.name.isdigit())


def contents(root: Path) -> dict[str, bytes]:
    return {str(each.relative_to(root)): each.read_bytes() for each in sorted(root.rglob("*")) if each.is_file()}


def test_a_plain_checkpoint_continues_under_the_fence_and_back(one: Driver, tmp_path: Path) -> None:
    fenced, stock = one.extra["fenced"], one.extra["stock"]
    feed(tmp_path, "1", "a", "b")
    run(one, stock, tmp_path)
    assert not (tmp_path / "checkpoint" / "_understudy").exists()
    assert unfenced(tmp_path, 0), "what other tests look for is there when the fence is not in force"
    began = time.time()
    feed(tmp_path, "2", "b", "c")
    run(one, fenced, tmp_path)
    assert not unfenced(tmp_path, began)
    feed(tmp_path, "3", "c", "d")
    run(one, fenced, tmp_path)
    feed(tmp_path, "4", "a", "d", "e")
    run(one, stock, tmp_path)
    assert batches(tmp_path, "offsets") == batches(tmp_path, "commits")
    assert len(batches(tmp_path, "commits")) >= 4
    assert rows(stock, tmp_path / "out") == ["a", "b", "c", "d", "e"]
    for root in ("checkpoint", "out"):
        assert claim_files(tmp_path / root)[1]["holder"] == one.holder
    published = {line["path"].rsplit("/", 2)[-2] for line in one.logged(op="publish", outcome="accepted")}
    assert {"offsets", "commits", "0", "_spark_metadata"} <= published


def test_a_query_under_a_higher_claim_fails_and_changes_nothing(one: Driver, tmp_path: Path) -> None:
    fenced = one.extra["fenced"]
    feed(tmp_path, "1", "a")
    run(one, fenced, tmp_path)
    seize(tmp_path / "checkpoint", token(6))
    before = contents(tmp_path)
    feed(tmp_path, "2", "b")
    with pytest.raises(Py4JJavaError) as error:
        run(one, fenced, tmp_path)
    assert refusal(error.value) == LOST
    after = contents(tmp_path)
    assert {name: data for name, data in after.items() if name in before} == before
    assert [name for name in after if name not in before and not name.startswith("out/part-")] == ["in/2"]


def numbers(one: Driver) -> Any:
    expression = one.gateway.new_array(one.jvm.java.lang.String, 1)
    expression[0] = "cast(id as string) as value"
    return one.extra["fenced"].range(3).selectExpr(expression)


def write(one: Driver, path: Path, mode: str = "overwrite") -> None:
    numbers(one).write().mode(mode).parquet(str(path))


def test_a_leader_frozen_between_the_python_gate_and_an_overwrite_destroys_nothing(one: Driver, tmp_path: Path) -> None:
    target = tmp_path / "out" / "batch=1"
    frame = numbers(one)
    assert one.state()["gate"]["state"] == "open"  # Python's gate has let it pass
    one.freeze()
    seize(tmp_path / "out", token(6))
    target.mkdir()
    (target / "part-0").write_text("the new leader's")
    before = contents(tmp_path)
    one.thaw()
    with pytest.raises(Py4JJavaError) as error:
        frame.write().mode("overwrite").parquet(str(target))
    assert refusal(error.value) == LOST
    assert contents(tmp_path) == before
    assert one.logged(op="deleteWithJob", path=str(target))[-1]["reason"] == "higher-claim"


def test_a_leader_frozen_before_an_append_appends_nothing(one: Driver, tmp_path: Path) -> None:
    seize(tmp_path / "out", token(6))
    before = contents(tmp_path)
    with pytest.raises(Py4JJavaError) as error:
        write(one, tmp_path / "out", "append")
    assert refusal(error.value) == LOST
    assert contents(tmp_path) == before
    assert one.logged(op="setupJob", path=str(tmp_path / "out"))[-1]["outcome"] == "refused"


def test_a_commit_protocol_that_the_session_names_does_the_work_behind_the_fence(one: Driver, tmp_path: Path) -> None:
    session, key = one.extra["fenced"].newSession(), "spark.sql.sources.commitProtocolClass"
    named = "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol"
    for name, value in {
        **FENCE,
        key: named,
        "spark.sql.sources.outputCommitterClass": "org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter",
    }.items():
        session.conf().set(name, value)
    settings = one.jvm.dev.understudy.fence.FenceSettings
    assert settings.enforce(session) == ""
    assert session.conf().get(key) == FENCE[key]
    target = tmp_path / "out"
    for _ in range(2):  # only Spark's SQL protocol makes such a committer, and cannot
        session.range(3).write().mode("overwrite").json(str(target))
    assert claim_files(target, OUTPUTS / "c" / "j")[1]["holder"] == one.holder
    assert session.read().json(str(target)).count() == 3
    seize(target, token(6))
    before = contents(tmp_path)
    with pytest.raises(Py4JJavaError) as error:
        session.range(4).write().mode("overwrite").json(str(target))
    assert refusal(error.value) == LOST
    assert contents(tmp_path) == before


def test_a_session_is_asked_for_every_setting_and_none_is_not_ours(one: Driver) -> None:
    enforce = one.jvm.dev.understudy.fence.FenceSettings.enforce
    for key in FENCE:
        session = spark(one, FENCE)
        session.conf().unset(key)
        assert enforce(session) == f"{key}=null"
        if "sources" not in key:  # that one is wrapped
            session.conf().set(key, "no.such.Class")
            assert enforce(session) == f"{key}=no.such.Class"


def test_a_context_gets_what_it_lacks_and_no_other_manager(one: Driver) -> None:
    install, conf = one.jvm.dev.understudy.fence.FenceSettings.install, one.jvm.org.apache.spark.SparkConf(False)
    conf.set("spark.sql.sources.commitProtocolClass", "their.Own")
    assert install(conf) == ""
    assert {key: conf.get(key) for key in FENCE} == FENCE
    assert conf.get("spark.understudy.sources.commitProtocolClass") == "their.Own"
    for key in ("spark.sql.streaming.checkpointFileManagerClass", "spark.sql.streaming.commitProtocolClass"):
        other = conf.clone().set(key, "their.Own")
        assert install(other) == f"{key}=their.Own"


def test_commit_and_abort_are_refused_after_a_takeover(one: Driver, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = Job(one, out)
    job.protocol.setupJob(job.context)
    assert (out / "_temporary").is_dir()
    seize(out, token(6))
    before = contents(tmp_path)
    empty = one.jvm.scala.jdk.javaapi.CollectionConverters.asScala(one.jvm.java.util.ArrayList()).toSeq()
    with pytest.raises(Py4JJavaError) as error:
        job.protocol.commitJob(job.context, empty)
    assert refusal(error.value) == LOST
    job.protocol.abortJob(job.context)  # says nothing, does nothing: a successor works in _temporary now
    assert (out / "_temporary").is_dir()
    assert contents(tmp_path) == before
    assert [line["op"] for line in one.logged(path=str(out), outcome="refused", reason="higher-claim")] == [
        "commitJob",
        "abortJob",
    ]


class Task:
    """One batch of the streaming file sink with one task, taken through its steps by hand."""

    def __init__(self, one: Driver, path: Path) -> None:
        self.one, self.out, jvm = one, path, one.jvm
        mapreduce = jvm.org.apache.hadoop.mapreduce
        attempt = mapreduce.TaskAttemptID(mapreduce.TaskID("job", 0, mapreduce.TaskType.MAP, 0), 0)
        self.context = mapreduce.task.TaskAttemptContextImpl(one.conf, attempt)
        self.protocol = jvm.dev.understudy.fence.FencedManifestProtocol("7", str(path))
        sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
        log = sinks.FileStreamSinkLog(1, one.extra["fenced"], str(path / "_spark_metadata"), jvm.scala.Option.empty())
        self.protocol.setupManifestOptions(log, 7)
        self.protocol.setupJob(self.context)
        self.protocol.setupTask(self.context)

    def new_file(self, directory: str | None = None) -> Path:
        jvm = self.one.jvm
        name = jvm.org.apache.spark.internal.io.FileNameSpec("", ".parquet")
        return Path(self.protocol.newTaskTempFile(self.context, jvm.scala.Option.apply(directory), name))

    def write_file(self, directory: str | None = None) -> Path:
        path = self.new_file(directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("rows")
        return path

    def commit_task(self) -> Any:
        """The task's message, as it reaches the driver."""
        message = self.protocol.commitTask(self.context)
        self.protocol.onTaskCommit(message)
        return message

    def commit_job(self, message: Any) -> None:
        messages = self.one.jvm.java.util.ArrayList()
        messages.add(message)
        self.protocol.commitJob(
            self.context, self.one.jvm.scala.jdk.javaapi.CollectionConverters.asScala(messages).toSeq()
        )

    def published(self) -> list[str]:
        """What a reader that knows nothing of Spark finds: names that begin with ``_`` or ``.`` are hidden from it."""
        found = (path.relative_to(self.out) for path in self.out.rglob("*") if path.is_file())
        return sorted(str(path) for path in found if not any(part[0] in "._" for part in path.parts))


def test_a_stale_task_of_the_file_sink_opens_no_file(one: Driver, tmp_path: Path) -> None:
    out = tmp_path / "out"
    task = Task(one, out)
    task.new_file()
    seize(out, token(6))
    with pytest.raises(Py4JJavaError) as error:
        task.new_file()
    assert refusal(error.value) == LOST
    assert one.logged(op="newTaskFile", path=str(out))[-1]["reason"] == "higher-claim"


def test_a_task_that_became_stale_takes_its_file_away(one: Driver, tmp_path: Path) -> None:
    out = tmp_path / "out"
    task = Task(one, out)
    written = task.write_file()
    assert task.published() == [], "half a file must not be read"
    seize(out, token(6))
    with pytest.raises(Py4JJavaError) as error:
        task.protocol.commitTask(task.context)
    assert refusal(error.value) == LOST
    assert one.logged(op="commitTask", path=str(out))[-1]["reason"] == "higher-claim"
    task.protocol.abortTask(task.context)  # what Spark does with a task that failed
    assert not written.exists()


def test_files_of_the_sink_are_published_with_the_batch(one: Driver, tmp_path: Path) -> None:
    task = Task(one, tmp_path / "out")
    written = [task.write_file(), task.write_file("day=1")]
    message = task.commit_task()
    assert task.published() == []
    task.commit_job(message)
    names = sorted([written[0].name, f"day=1/{written[1].name}"])
    assert task.published() == names
    logged = (tmp_path / "out" / "_spark_metadata" / "7").read_text()
    assert all(f"{tmp_path}/out/{name}" in logged for name in names)
    assert not any(path.exists() for path in written)


def test_a_driver_that_became_stale_publishes_no_file(one: Driver, tmp_path: Path) -> None:
    task = Task(one, tmp_path / "out")
    written = task.write_file()
    message = task.commit_task()
    seize(tmp_path / "out", token(6))
    with pytest.raises(Py4JJavaError) as error:
        task.commit_job(message)
    assert refusal(error.value) == LOST
    assert task.published() == []
    task.protocol.abortJob(task.context)
    assert not written.exists()


def test_a_claim_takes_the_files_of_the_predecessor_away(one: Driver, tmp_path: Path) -> None:
    """It may have been let through and frozen before it published them, so no question can stop it any more."""
    out = tmp_path / "out"
    seize(out, token(4))
    stale = out / "_understudy" / "staging-of-another-jvm" / "part-0.parquet"
    stale.parent.mkdir()
    stale.write_text("rows")
    task = Task(one, out)
    task.write_file()
    assert not stale.exists()


def test_a_file_that_was_taken_away_is_not_published(one: Driver, tmp_path: Path) -> None:
    task = Task(one, tmp_path / "out")
    written = [task.write_file() for _ in range(2)]
    message = task.commit_task()
    for path in written:
        path.unlink()  # as a successor's claim does, just after this driver was let through
    with pytest.raises(Py4JJavaError):
        task.commit_job(message)
    assert task.published() == []
    assert not (tmp_path / "out" / "_spark_metadata" / "7").exists()


def test_an_overwrite_keeps_the_claim(one: Driver, tmp_path: Path) -> None:
    for _ in range(2):
        write(one, tmp_path / "out")
    assert claim_files(tmp_path / "out", OUTPUTS / "c" / "j")[1]["holder"] == one.holder
    assert rows(one.extra["stock"], tmp_path / "out") == ["0", "1", "2"]
    assert [line["op"] for line in one.logged(path=str(tmp_path / "out"), outcome="accepted")][-3:] == [
        "deleteWithJob",
        "setupJob",
        "commitJob",
    ]


def test_one_claim_serves_all_partitions_of_a_sink(one: Driver, tmp_path: Path) -> None:
    for batch in range(3):
        write(one, tmp_path / "out" / f"batch={batch}")
    assert [each.parent.name for each in tmp_path.rglob("_understudy")] == ["out"]
    assert len(rows(one.extra["stock"], tmp_path / "out")) == 9


@pytest.mark.parametrize("frozen", [False, True])
def test_what_a_predecessor_has_not_committed_is_not_committed(one: Driver, tmp_path: Path, frozen: bool) -> None:
    """Hadoop commits all finished tasks that it finds, and one that was frozen may finish more of them at any time."""
    out = tmp_path / "out"
    seize(out, token(4))
    if frozen:
        write(one, out, "append")
    for attempt in (0, 4 << 12):  # of token 4.0
        finished_task = out / "_temporary" / str(attempt) / "task_202501010000_0000_m_000000"
        finished_task.mkdir(parents=True)
        (finished_task / "part-stale").write_text("would be committed")
    write(one, out, "append")
    assert not (out / "part-stale").exists()
    assert rows(one.extra["stock"], out) == sorted(["0", "1", "2"] * (1 + frozen))
    assert not (out / "_temporary").exists()


def test_executors_hold_no_lease_and_pass(one: Driver, tmp_path: Path) -> None:
    """On an executor there is no gate; what it writes counts only once the driver commits it."""
    jvm = one.jvm
    driver_env = jvm.org.apache.spark.SparkEnv.get()
    executor = jvm.org.apache.spark.SparkEnv("7", *[None] * 10, jvm.org.apache.spark.SparkConf())
    seize(tmp_path, token(6))  # which would stop a driver at once
    jvm.org.apache.spark.SparkEnv.set(executor)
    try:
        one.write(tmp_path / "state" / "0" / "0" / "1.delta", overwrite=True)
        one.manager(tmp_path).delete(one.path(tmp_path / "state" / "0" / "0" / "1.delta"))
    finally:
        jvm.org.apache.spark.SparkEnv.set(driver_env)
    assert claim_files(tmp_path)[1]["holder"] == "another"
