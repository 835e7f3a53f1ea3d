"""``understudy doctor`` on one machine: a sound job has no finding, and each thing that is broken has exactly its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.doctor_builders import TOKEN, Ward, examined, grave, replica
from understudy.doctor import documents
from understudy.doctor.documents import Read
from understudy.doctor.finding import Severity, exit_code
from understudy.documents import codec
from understudy.documents.model import HEADROOM, LIMIT, Document
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.moved import Moved, State
from understudy.ha.requests import Action, Request
from understudy.protocol.token import Token

Harm = Callable[[Ward], Awaitable[object]]
PROBLEM, WARNING = Severity.PROBLEM, Severity.WARNING


def test_a_sound_job_has_no_finding(tmp_path: Path) -> None:
    found = examined(tmp_path)

    assert grave(found) == []
    assert exit_code(found) == 0
    assert {each.check for each in found if each.severity is Severity.OK} == {
        *(
            "documents",
            "job",
            "lock",
            "replicas",
            "claims",
            "checkpoints",
            "fence",
            "clocks",
            "pyspark",
            "java",
            "fence-jar",
        )
    }
    texts = "\n".join(str(each) for each in found)
    assert f"file:{tmp_path}/checkpoint: query flights is at batch 8, on record is 7" in texts
    assert "in force in the driver of token 3.1" in texts


def test_a_claim_of_a_lock_from_which_the_job_was_moved_is_no_finding(tmp_path: Path) -> None:
    async def moved(ward: Ward) -> None:
        here = Moved(State.HERE, "m", "elsewhere", "here", "file", 3, {"lease": 3})
        await ward.entry("c-replicas", "moved", here.encode())
        ward.claim(ward.sink, replace(ward.own, lock="lease"))

    assert grave(examined(tmp_path, moved)) == []


def test_nothing_is_changed(tmp_path: Path) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() if path.is_file() else b"" for path in tmp_path.rglob("*")}

    async def run() -> None:
        ward = Ward(tmp_path)
        await ward.begin()
        before = contents()
        await ward.findings()
        assert contents() == before

    asyncio.run(run())


def of(root: str, **changes: object) -> Harm:
    async def harm(ward: Ward) -> None:
        ward.claim(ward.home / root, replace(ward.own, **changes))  # type: ignore[arg-type]

    return harm


def entry(document: str, name: str, text: str | None) -> Harm:
    return lambda ward: ward.entry(document, name, text)


GONE = Moved(State.GONE, "m", "--ha s3 --lock s3, below s3a://bucket/ha", "here", "s3").encode()


def on_disk(do: Callable[[Ward], object]) -> Harm:
    async def harm(ward: Ward) -> None:
        do(ward)

    return harm


async def status_of_a_newer_release(ward: Ward) -> None:
    document = await ward.documents.read("c-j")
    assert document is not None
    body = codec.decode("job", document.entries["job"])[1]
    await ward.entry("c-j", "job", codec.encode("job", 1, {**body, "status": "PARTED"}))


async def fails(ward: Ward) -> None:
    await ward.jobs.failed_once(TOKEN, 20.0, 600.0, "no such airport")
    await ward.jobs.end(TOKEN, Status.FAILED, "no such airport, password=hunter2hunter2", 20.0)


async def failed_once(ward: Ward) -> None:
    await ward.jobs.failed_once(TOKEN, 20.0, 600.0, "no such airport")


async def asked_long_ago(ward: Ward) -> None:
    await ward.jobs.ask(Request("s1", Action.SUSPEND, "ann", at=1000.0, timeout=300.0))


async def recorded_under_a_higher_token(ward: Ward) -> None:
    """The claim that stands in the sink is that of token 3.1."""
    job = await ward.jobs.begin_attempt(4, "a", _zero, Generation(1, "digest"), run="monday")
    await ward.jobs.claims(job.token, (f"file:{ward.checkpoint}", str(ward.sink)))
    ward.claim(ward.checkpoint, replace(ward.own, token=job.token))
    ward.grant = replace(ward.grant, token_epoch=4)


async def gives_the_sink_up(ward: Ward) -> None:
    job = await ward.jobs.begin_attempt(4, "a", _zero, Generation(1, "digest"), run="monday")
    await ward.jobs.claims(job.token, (f"file:{ward.checkpoint}",))
    await ward.jobs.serving(job.token, 30.0)
    ward.claim(ward.checkpoint, replace(ward.own, token=job.token))
    ward.grant = replace(ward.grant, token_epoch=4)
    await asyncio.to_thread(shutil.rmtree, ward.sink)


async def _zero() -> int:
    return 0


async def another_kind_of_document(ward: Ward) -> None:
    lock = await ward.documents.read("c-lock")
    assert lock is not None
    await ward.entry("c-j", "job", None)
    await ward.entry("c-j", "grant", lock.entries["grant"])


async def lower_epoch(ward: Ward) -> None:
    ward.grant = replace(ward.grant, token_epoch=2)


async def unknown_holder(ward: Ward) -> None:
    ward.grant = replace(ward.grant, holder="stranger")
    await ward.replicas.leave("a")


async def no_standby(ward: Ward) -> None:
    await ward.replicas.leave("b")


def standby(**changes: object) -> Harm:
    return lambda ward: ward.replicas.publish(replica("b", "standby", **changes))


def leader(**changes: object) -> Harm:
    return lambda ward: ward.replicas.publish(replica("a", "leader", **changes))


async def another_leader(ward: Ward) -> None:
    await ward.replicas.publish(replica("z", "leader"))


def loses_two_commits(ward: Ward) -> None:
    for batch in (7, 8):
        (ward.checkpoint / "commits" / str(batch)).unlink()


BROKEN: dict[str, tuple[Harm, Severity, str, str, int]] = {
    # documents
    "a damaged record of the job": (entry("c-j", "job", "garbage"), PROBLEM, "documents", "c-j (job): the value is not JSON", 4),
    "a damaged record of runs": (entry("c-j", "run", "{}"), PROBLEM, "documents", "c-j (run): the value is JSON, but not one of ours", 4),
    "damaged roots": (entry("c-j", "roots", "x"), WARNING, "documents", "c-j: entry roots cannot be read", 0),
    "damaged checkpoints": (entry("c-j", "checkpoints", "x"), WARNING, "documents", "entry checkpoints cannot be read", 0),
    "a damaged request": (entry("c-j", "request", "x"), WARNING, "documents", "entry request cannot be read", 0),
    "a damaged counter": (entry("c-j", "counter", "x"), WARNING, "documents", "entry counter cannot be read: boundaries get no", 0),
    "a damaged answer": (entry("c-j", "answer", "x"), WARNING, "documents", "entry answer cannot be read", 0),
    "a damaged submission": (entry("c-j", "submitted", "x"), WARNING, "documents", "entry submitted cannot be read: replicas that are", 0),
    "a damaged replica": (entry("c-replicas", "replica.q", "x"), WARNING, "documents", "what replica q says of itself cannot be read", 0),
    "a damaged cluster": (entry("c-replicas", "cluster", "x"), PROBLEM, "documents", "c-replicas (cluster): the value is not JSON", 4),
    "no cluster": (entry("c-replicas", "cluster", None), PROBLEM, "documents", "which job the cluster id belongs to is gone", 4),
    "a lock in place of the job": (another_kind_of_document, PROBLEM, "documents", "this is a lock of another cluster id", 5),
    "no record of the job": (on_disk(lambda ward: ward.lose("c-j")), PROBLEM, "documents", "c-j: the job's record is gone", 4),
    "a foreign entry of half a document": (
        *(entry("c-j", "theirs", "x" * (LIMIT // 2)), WARNING, "documents"),
        *("more than half of the 1048576 that fit", 0),
    ),
    # the job
    "a status of a newer release": (status_of_a_newer_release, PROBLEM, "job", "the job's status is 'PARTED'", 4),
    "a job that has FAILED": (fails, PROBLEM, "job", "c-j: FAILED: no such airport, password=***", 1),
    "a failure": (failed_once, WARNING, "job", "it has failed 1 times lately, at last: no such airport", 0),
    "a pause": (lambda ward: ward.jobs.pause("ann", 1.0), WARNING, "job", "c-j: paused by ann", 0),
    "a request that is not answered": (asked_long_ago, WARNING, "job", "request suspend (s1) is under way, asked for", 0),
    # the lock
    "a lower epoch": (lower_epoch, WARNING, "lock", "epoch 2 is below that of the job's token 3.1", 0),
    "a holder that says nothing": (unknown_holder, WARNING, "lock", "the replicas' document knows no such replica", 0),
    # claims
    "a checkpoint without a claim": (
        *(on_disk(lambda ward: shutil.rmtree(ward.checkpoint / "_understudy")), PROBLEM, "claims"),
        *("this job has claimed it before, and now it has no claim", 4),
    ),
    "a sink that is gone": (
        *(on_disk(lambda ward: shutil.rmtree(ward.sink)), PROBLEM, "claims"),
        *("sink: this job has claimed it before", 4),
    ),
    "a claim of another job": (of("sink", job="k"), PROBLEM, "claims", "claimed by another job of this cluster id: job k of cluster c", 5),
    "a claim of another cluster": (of("sink", cluster="d"), PROBLEM, "claims", "claimed by another cluster id: job j of cluster d", 5),
    "a claim under another lock": (of("sink", lock="lease"), PROBLEM, "claims", "claimed under another kind of lock", 5),
    "a claim that cannot be read": (
        *(on_disk(lambda ward: (ward.sink / "_understudy" / "claim@2").write_text("{")), PROBLEM, "claims"),
        *("claimed, and the claim cannot be read", 5),
    ),
    "a claim that is behind": (recorded_under_a_higher_token, PROBLEM, "claims", "its claim, 3.1, is older than one this job has had there", 4),
    "a claim that is ahead": (of("sink", token=Token(9, 1)), WARNING, "claims", "claimed under token 9.1, above 3.1", 0),
    "a root that is gone and that the present driver has given up": (
        *(gives_the_sink_up, WARNING, "claims"),
        *("now it has no claim: it is gone, was emptied, or was copied without its claim; no query of the present driver", 0),
    ),
    "a place that the job has left": (
        *(entry("c-replicas", "moved", GONE), PROBLEM, "documents"),
        *("c-replicas: the job has moved to --ha s3 --lock s3, below s3a://bucket/ha", 5),
    ),
    "no floor": (on_disk(lambda ward: shutil.rmtree(ward.home / "c" / "floor")), WARNING, "claims", "floor/claim: it is gone", 0),
    # checkpoints
    "commits behind their record": (
        *(on_disk(loses_two_commits), PROBLEM, "checkpoints"),
        *("query flights has committed batch 7, and commits end at 6", 4),
    ),
    "offsets that are gone": (
        *(on_disk(lambda ward: shutil.rmtree(ward.checkpoint / "offsets")), PROBLEM, "checkpoints"),
        *("committed batch 7, and offsets are empty", 4),
    ),
    # replicas
    "no standby": (no_standby, WARNING, "replicas", "there is no standby", 0),
    "a standby of older code": (standby(generation=0), WARNING, "replicas", "runs code of generation 0, and generation 1 leads", 0),
    "a standby that knows one query of two": (leader(queries=2), WARNING, "replicas", "rehearsed 1 of 2 queries", 0),
    "a query that has died": (leader(reason="query gates: no memory"), WARNING, "replicas", "leads, and query gates: no memory", 0),
    "a leader that was deposed": (another_leader, WARNING, "replicas", "says that it leads, and does not hold the lock", 0),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found_and_nothing_else(tmp_path: Path, what: str) -> None:
    harm, severity, check, words, code = BROKEN[what]

    found = examined(tmp_path, harm)

    (one,) = grave(found)
    assert (one.severity, one.check, one.exit_code) == (severity, check, code), one
    assert words in str(one)
    assert one.remedy
    assert exit_code(found) == code
    assert found[0] is one, "the worst comes first"


def test_a_pause_that_cannot_be_read_is_a_pause_all_the_same(tmp_path: Path) -> None:
    found = grave(examined(tmp_path, entry("c-j", "paused", "x")))

    assert [(each.severity, each.check) for each in found] == [(WARNING, "documents"), (WARNING, "job")]
    assert "the job counts as paused" in found[0].text


def test_a_document_that_takes_no_more_is_a_problem() -> None:
    entries = {"job": "x", "theirs": "y" * LIMIT}
    found = grave(
        documents.findings_of_job_document(Read("c-j", Document("c-j", entries, None, {}, "r1")), "j", begun=True)
    )

    assert [(each.severity, each.exit_code) for each in found] == [(PROBLEM, 4), (PROBLEM, 4)]
    assert f"no write of more than {LIMIT - HEADROOM} is made" in found[1].text


def test_what_is_missing_is_not_made(tmp_path: Path) -> None:
    examined(tmp_path, on_disk(lambda ward: shutil.rmtree(ward.home / "c" / "floor")))

    assert not (tmp_path / "c" / "floor").exists()
