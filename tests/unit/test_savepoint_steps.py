"""The two ends of a savepoint: what the supervisor writes of it, and what the driver does with its copies; without a JVM."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.doubles.blobs import MemoryBlobStore
from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.config.tree import Storage
from understudy.driver.savepoints import Savepoints as DriverSavepoints
from understudy.driver.savepoints import _directories
from understudy.ha import savepoint_changes
from understudy.ha.cleanup import Facts, Leftover, Place, plan
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.requests import Action, Request, Result
from understudy.ha.savepoints import Manifest, Proof, directory_of, number_in
from understudy.protocol.messages import Message, Save, Saved
from understudy.protocol.savepoint import SavedQuery
from understudy.protocol.token import Token
from understudy.supervisor.inputs import BoundaryRecorded, DrainingRecorded, SavepointRecorded, SuspensionRecorded
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint
from understudy.supervisor.savepoints import Savepoints, storage_url

NOW = 1000.0
LED = Token(1, 1)
COPY = SavedQuery("flights", "file:/checkpoint", "parquet", "/out", 12, "flights", 3, 1024, "0f", "live")
SAVED = Saved("s1", 1, "", "4.2.1", 0.5, 0.4, [COPY])


def take(
    saved: Saved,
    blobs: MemoryBlobStore,
    *,
    suspend: bool = False,
    drain: tuple[str, ...] | None = None,
    withdrawn: bool = False,
) -> tuple[Any, Any, Job]:
    """What recording the boundary and the savepoint comes to, and the job then."""
    asked = Request("s1", Action.SAVEPOINT, "ann@host", NOW, 300.0)
    if drain is not None:
        asked = replace(asked, action=Action.DRAIN, savepoint=True)

    async def run() -> tuple[Any, Any, Job]:
        jobs = JobStore(MemoryDocumentStore(MemoryServer()), "c-j", "j", "job.py")
        await jobs.begin_attempt(1, "a", nothing_granted, Generation())
        await jobs.ask(asked)
        settings: Any = SimpleNamespace(cluster="c", job="j", storage=Storage(ha_storage="s3a://bucket/ha/"))
        part = Savepoints(settings, jobs, blobs)
        boundary = await part.begin(RecordBoundary(LED, "s1"), NOW, ())
        if withdrawn:
            await jobs.resume((), NOW)
        command = RecordSavepoint(LED, saved, suspend, drain)
        recorded = await part.record(command, NOW)
        assert await part.record(command, NOW) == recorded, "taken twice, it does the same"
        job = await jobs.read()
        assert job is not None
        return boundary, recorded, job

    return asyncio.run(run())


PLACE = f"savepoints/c/j/{directory_of(1, 's1')}"


def test_where_the_documents_were_lost_the_next_savepoint_has_another_number_and_no_older_one_is_touched() -> None:
    older = {
        f"savepoints/c/j/{name}": b"{}"
        for name in ("9/manifest.json", "12-0123abcd/manifest.json", "odd/manifest.json")
    }
    blobs = MemoryBlobStore(dict(older))
    boundary, _, job = take(replace(SAVED, number=13, problem="no space left", queries=[]), blobs)
    assert (boundary.number, job.checkpoints.counter) == (13, 13)
    assert plan(Facts("c", saved=[*older, f"{boundary.place.removeprefix('s3a://bucket/ha/')}/x"], job=job)) == (
        Leftover(Place.SAVEPOINTS, f"savepoints/c/j/{directory_of(13, 's1')}/", "savepoint 13 has failed"),
    )
    assert blobs.stored == older


def test_two_requests_never_get_the_same_directory_even_for_the_same_number() -> None:
    assert directory_of(1, "s1") != directory_of(1, "s2")
    assert [number_in(each) for each in (directory_of(7, "s1"), "7", "7-", "07-0123abcd", "x", "7-../8")] == [
        7,
        7,
        None,
        7,
        None,
        None,
    ]


def test_without_an_answer_of_the_storage_no_savepoint_begins() -> None:
    blobs = MemoryBlobStore(fault=lambda verb: "lost" if verb == "directories" else "")
    boundary, _, job = take(SAVED, blobs)
    assert boundary.number is None
    assert job.requests.answer is not None
    assert job.requests.answer.result == Result.FAILED
    assert "HA storage does not say which savepoints it has: memory:: no answer" in job.requests.answer.text
    assert (job.savepoints.known, job.checkpoints.counter) == ((), 0)


def test_of_a_request_that_was_withdrawn_meanwhile_no_manifest_is_written() -> None:
    blobs = MemoryBlobStore()
    take(SAVED, blobs, withdrawn=True)
    assert blobs.stored == {}


def test_the_manifest_stands_before_the_savepoint_is_complete() -> None:
    blobs = MemoryBlobStore()
    boundary, recorded, job = take(SAVED, blobs)
    assert boundary == BoundaryRecorded(1, f"s3a://bucket/ha/{PLACE}")
    manifest = Manifest.decode(blobs.stored[f"{PLACE}/manifest.json"], "there")
    assert manifest == Manifest("c", "j", 1, NOW, "4.2.1", [COPY])
    one = job.savepoints.known[0]
    assert (one.state, one.batches) == (Proof.REHEARSED, {"flights": 12})
    assert isinstance(recorded, SavepointRecorded)
    assert f"3 files, 1024 bytes in s3a://bucket/ha/{PLACE}; batches were held for 0.50 s, 0.40 s" in recorded.text
    assert job.status is Status.RUNNING


def test_the_job_is_suspended_with_its_savepoint() -> None:
    _, recorded, job = take(SAVED, MemoryBlobStore(), suspend=True)
    assert recorded == SuspensionRecorded(Status.SUSPENDED)
    assert job.savepoints.known[0].complete


def test_the_job_is_draining_with_its_savepoint_and_the_request_stays_under_way() -> None:
    _, recorded, job = take(SAVED, MemoryBlobStore(), drain=("file:/checkpoint",))
    assert recorded == DrainingRecorded(Status.DRAINING, ("file:/checkpoint",))
    assert job.savepoints.known[0].complete
    assert job.requests.is_under_way("s1")
    assert job.draining == ("file:/checkpoint",)


def test_what_is_draining_after_its_savepoint_is_not_called_failed_when_the_storage_goes_away() -> None:
    _, _, job = take(SAVED, MemoryBlobStore(), drain=())
    assert savepoint_changes.fail(1, "s1", "no answer", NOW)(job) == job


def test_a_savepoint_that_failed_leaves_a_job_running_that_was_to_be_drained() -> None:
    blobs = MemoryBlobStore(fault=lambda verb: "lost" if verb == "create" else "")
    _, recorded, job = take(SAVED, blobs, drain=("file:/checkpoint",))
    assert recorded == DrainingRecorded(Status.RUNNING)
    assert job.draining is None
    assert job.requests.answer is not None
    assert job.requests.answer.result == Result.FAILED


def test_the_answer_says_how_many_files_the_store_copied() -> None:
    _, recorded, _ = take(replace(SAVED, queries=[replace(COPY, within=2)]), MemoryBlobStore())
    assert "3 files, 2 of them copied within the store, 1024 bytes" in recorded.text


def with_anothers_manifest() -> MemoryBlobStore:
    """It is there when the first one is to be created."""
    blobs = MemoryBlobStore()

    def slip_in(verb: str) -> str:
        if verb == "create":
            blobs.stored[f"{PLACE}/manifest.json"] = b"{}"
        return ""

    blobs.fault = slip_in
    return blobs


@pytest.mark.parametrize(
    ("saved", "blobs", "why"),
    [
        (replace(SAVED, problem="no space left", queries=[]), MemoryBlobStore(), "no space left"),
        (SAVED, MemoryBlobStore(fault=lambda verb: "lost" if verb == "create" else ""), "no answer"),
        (SAVED, with_anothers_manifest(), "is of another savepoint"),
        (replace(SAVED, number=7), MemoryBlobStore(), "it is not known any more"),
    ],
    ids=["driver", "storage", "another", "unknown"],
)
def test_a_savepoint_that_failed_leaves_the_job_running_and_is_not_listed_as_complete(
    saved: Saved, blobs: MemoryBlobStore, why: str
) -> None:
    _, _, job = take(saved, blobs, suspend=True)
    answer = job.requests.answer
    assert answer is not None
    assert (answer.result, job.status) == (Result.FAILED, Status.RUNNING)
    assert why in answer.text
    assert job.savepoints_now[0].state == Proof.FAILED


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("/srv/ha", "file:///srv/ha"),
        ("file:///srv/a b", "file:///srv/a b"),
        ("file:/srv/ha", "file:///srv/ha"),
        ("s3://bucket/ha/", "s3a://bucket/ha"),
        ("s3a://bucket", "s3a://bucket"),
    ],
)
def test_the_jvm_is_told_a_place_as_hadoop_names_it(given: str, url: str) -> None:
    assert storage_url(given) == url


def test_a_relative_directory_is_where_the_supervisor_runs() -> None:
    assert storage_url("store") == f"file://{Path('store').absolute()}"


# --- the driver -------------------------------------------------------------------------------------------------------


class Script:
    """A driver with queries of these names; ``fails``: the step that goes wrong; ``hangs``: the one that waits for ``answers``."""

    def __init__(self, *names: str, fails: str = "", how: str = "live", hangs: str = "") -> None:
        self.did: list[str] = []
        self.sent: list[Message] = []
        self._fails, self._how, self._hangs = fails, how, hangs
        self.error: Exception = OSError("no space left")
        self.answers = threading.Event()
        self.told = queue.Queue[Any]()
        copies = SimpleNamespace(copy=self._copy, verify=self._verify, discard=lambda to, _: self._do("discard", to))
        jvm = SimpleNamespace(**{"dev.understudy.savepoint.CheckpointCopy": copies})
        context = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
        session = SimpleNamespace(_jvm=jvm, sparkContext=context, version="4.2.1")
        sink = SimpleNamespace(kind="parquet", directory="/out")
        self.queries: list[Any] = [
            SimpleNamespace(
                name=each, checkpoint=f"file:/{each}", session=session, sink=sink, table=None, no_boundary=""
            )
            for each in names
        ]
        registry: Any = SimpleNamespace(queries=lambda: self.queries)
        rehearsals: Any = SimpleNamespace(made=self._made)
        self.part = DriverSavepoints(registry=registry, rehearsals=rehearsals, send=self._tell)

    def _tell(self, said: Message) -> None:
        self.sent.append(said)
        self.told.put(said)

    def _do(self, step: str, what: str) -> None:
        did = f"{step} {what.rpartition('/')[2]}"
        if did == self._hangs:
            assert self.answers.wait(30.0)
        self.did.append(did)
        if did == self._fails:
            raise self.error

    def _copy(self, root: str, target: str, _conf: None, within: int) -> str:
        assert within in {30_000, 100}
        self._do("copy", target)
        return json.dumps({"batch": -1 if "new" in root else 12, "files": 3, "bytes": 9, "digest": "0f", "within": 2})

    def _verify(self, target: str, _conf: None, _within: int) -> str:
        self._do("verify", target)
        return "0e"

    def _made(self, _query: Any, target: str, _scratch: str) -> Any:
        def rehearse() -> str:
            self._do("rehearse", target)
            return json.dumps({"how": self._how})

        return SimpleNamespace(round=rehearse, cancel=lambda: None, close=lambda: self._do("close", target))

    def take(self, timeout: float = 30.0) -> Saved:
        def copied() -> float:
            self.did.append("go on")
            return 0.5

        self.part.take(Save("s1", 7, "file:///s/7", timeout, keep=False), copied)
        (said,) = self.sent
        assert isinstance(said, Saved)
        return said


def test_batches_go_on_after_the_copies_and_before_the_proof() -> None:
    script = Script("flights")
    said = script.take()
    assert script.did == ["copy flights", "go on", "verify flights", "rehearse flights", "close flights"]
    assert (said.problem, said.held, said.queries[0].how, said.spark) == ("", 0.5, "live", "4.2.1")
    assert (said.queries[0].digest, said.queries[0].within) == ("0e", 2), "the list as the proof left it"


def test_what_has_committed_nothing_is_not_proven_and_what_runs_no_batch_on_the_copy_is_no_rehearsal() -> None:
    script = Script("flights", "new", how="plan")
    said = script.take()
    assert "rehearse new" not in script.did
    assert [(each.batch, each.how) for each in said.queries] == [(12, ""), (-1, "")]


@pytest.mark.parametrize("fails", ["copy flights", "verify flights", "rehearse flights"])
def test_what_goes_wrong_is_named_and_only_what_was_copied_is_removed(fails: str) -> None:
    script = Script("flights", "other", fails=fails)
    said = script.take()
    assert said.problem == "query flights: OSError: no space left"
    assert said.queries == []
    assert {"discard flights", "discard other"} <= {*script.did}


def test_what_stood_there_before_is_not_removed() -> None:
    script = Script("flights", "other", fails="copy flights")
    kind = SimpleNamespace(getName=lambda: "org.apache.hadoop.fs.FileAlreadyExistsException")
    java = SimpleNamespace(
        _target_id="o1", _gateway_client=None, getMessage=lambda: "is there already", getClass=lambda: kind
    )
    script.error = Py4JJavaError("copy", java)
    assert script.take().problem == "query flights: is there already"
    assert "discard flights" not in script.did
    assert "discard other" in script.did


@pytest.mark.parametrize("step", ["copy flights", "verify flights"])
def test_a_storage_without_an_answer_does_not_hold_batches_beyond_the_time(step: str) -> None:
    script = Script("flights", hangs=step)
    taking = threading.Thread(target=script.take, args=(0.1,), daemon=True)
    taking.start()
    said = script.told.get(timeout=30.0)
    assert "within 0.1 s, and the storage does not say why" in said.problem
    assert said.queries == []
    assert "discard flights" not in script.did, "what is under way would write again"
    script.answers.set()
    taking.join(30.0)
    assert script.did[-1] == "discard flights"


def test_that_it_failed_is_told_before_anything_is_removed() -> None:
    script = Script("flights", fails="copy flights", hangs="discard flights")
    threading.Thread(target=script.take, daemon=True).start()
    assert "no space left" in script.told.get(timeout=30.0).problem
    script.answers.set()


def test_what_cannot_be_saved_is_refused() -> None:
    assert "no streaming query" in Script().part.refusal()
    script = Script("flights")
    assert script.part.refusal() == ""
    script.queries[0].no_boundary = "tracks its progress asynchronously"
    assert "flights has no savepoints: it tracks" in script.part.refusal()
    script.queries[0].no_boundary, script.queries[0].checkpoint = "", None
    assert "Give it a checkpointLocation" in script.part.refusal()


def test_each_query_has_a_directory_of_its_own_that_is_a_name_everywhere() -> None:
    assert _directories(["flights", "flights", "a b/ü", "..", "."]) == [
        "flights",
        "flights.1",
        "a-b",
        "query",
        "query.4",
    ]
