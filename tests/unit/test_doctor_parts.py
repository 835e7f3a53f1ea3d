"""What ``understudy doctor`` finds of replicas, roots elsewhere, HA storage and the machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.blobs import MemoryBlobStore
from tests.unit.doctor_builders import SOUND, TOKEN, Ward, examined, grave, replica
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.blobs.model import BlobStore
from understudy.doctor import machine, replicas, roots, storage
from understudy.doctor.examination import Here, bucket_of, examine_here, seen_here
from understudy.doctor.finding import Finding, Severity, by_gravity, exit_code, note, ok, problem, warning
from understudy.doctor.pods import Pod, seen_in
from understudy.doctor.replicas import Seen
from understudy.doctor.roots import Reach, Root
from understudy.errors import (
    AccessDenied,
    DocumentError,
    EnvironmentProblem,
    ServerUnreachable,
    SettingsError,
    UnderstudyError,
)
from understudy.ha.checkpoints import Checkpoint, Checkpoints
from understudy.ha.job import Job, Status
from understudy.ha.replicas import Replica
from understudy.ha.results import JobResultStore, result_of
from understudy.ha.roots import ClaimedRoots
from understudy.ha.runs import Runs
from understudy.protocol.claim import Claim
from understudy.protocol.token import Token


def one(findings: list[Finding]) -> Finding:
    (found,) = findings
    return found


def test_the_worst_comes_first_and_gives_the_exit_code() -> None:
    found = [
        ok("a", "1"),
        problem("b", "2", "", AccessDenied),
        warning("c", "3", ""),
        problem("d", "4", "", DocumentError),
    ]

    assert [each.text for each in by_gravity(found)] == ["2", "4", "3", "1"]
    assert exit_code(found) == 7
    assert exit_code([warning("c", "3", ""), note("d", "4")]) == 0


class TestReplicas:
    LEADER = replica("a", "leader", host="one")
    STANDBY = replica("b", "standby", host="two")

    def found(self, *living: Replica, seen: Seen | None = None, led: bool = True) -> list[Finding]:
        return replicas.findings(living, "a", seen or Seen(), led=led)

    @pytest.mark.parametrize(
        ("changes", "severity", "words"),
        [
            ({}, Severity.OK, "has rehearsed (live, 4 rounds)"),
            ({"generation": 2}, Severity.NOTE, "newer code than the leader"),
            ({"generation": 0}, Severity.WARNING, "of generation 0, and generation 1 leads"),
        ],
    )
    def test_of_a_rehearsed_standby(self, changes: dict[str, object], severity: Severity, words: str) -> None:
        found = by_gravity(self.found(self.LEADER, replace(self.STANDBY, **changes)))  # type: ignore[arg-type]
        assert found[0].severity is severity
        assert words in found[0].text

    @pytest.mark.parametrize(
        ("changes", "severity", "words"),
        [
            ({"held": "job.py:41"}, Severity.WARNING, "has not rehearsed: held at job.py:41"),
            ({"reason": "no such table"}, Severity.WARNING, "has not rehearsed: no such table"),
            ({}, Severity.NOTE, "has not rehearsed yet"),
        ],
    )
    def test_of_one_that_has_not_rehearsed(self, changes: dict[str, object], severity: Severity, words: str) -> None:
        found = self.found(self.LEADER, replace(self.STANDBY, rehearsed=False, **changes))  # type: ignore[arg-type]
        assert [each.severity for each in found] == [severity, Severity.WARNING]
        assert words in found[0].text
        assert "no standby has rehearsed" in found[1].text

    def test_replicas_of_a_job_that_has_ended_rehearse_nothing(self) -> None:
        assert self.found(replace(self.STANDBY, rehearsed=False, reason="it has ended"), led=False) == []

    def test_one_that_is_gone_is_no_standby(self) -> None:
        gone, alone = self.found(self.LEADER, self.STANDBY, seen=Seen(frozenset({"b"})))
        assert (gone.severity, gone.text) == (Severity.NOTE, "b is gone, and what it said of itself is left")
        assert "there is no standby" in alone.text

    @pytest.mark.parametrize(
        ("nodes", "said"),
        [({"a": "n1", "b": "n1"}, True), ({"a": "n1", "b": "n2"}, False), ({"a": "n1"}, False), ({}, False)],
    )
    def test_on_one_node_they_would_be_lost_together(self, nodes: dict[str, str], said: bool) -> None:
        found = self.found(self.LEADER, self.STANDBY, seen=Seen(nodes=nodes))
        assert any("all replicas run on node n1" in each.text for each in found) is said

    def test_who_is_gone_is_known_by_pods_in_a_cluster_and_by_processes_on_a_machine(self) -> None:
        led, stands = replica("u1_s", "leader"), replica("u2_s", "standby")
        assert seen_in([Pod("u1", "n1", "c", native=False)], [led, stands]) == Seen(frozenset({"u2_s"}), {"u1_s": "n1"})
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            ended.wait()
        other = replica("z", "standby", host="another-machine", pid=ended.pid)
        dead, older = replica("x", "standby", pid=ended.pid), replica("y", "standby", boot="before")
        seen = seen_here([led, other, dead, older])
        assert seen == Seen(frozenset({"x", "y"}), unseen=frozenset({"z"}))

    def test_a_standby_that_is_not_seen_from_here_is_taken_at_its_word_and_no_further(self) -> None:
        """Documents in a bucket or in ZooKeeper keep what a dead machine has said for an hour."""
        found = self.found(self.LEADER, self.STANDBY, seen=Seen(unseen=frozenset({"b"})))
        (told,) = (each for each in found if each.text.startswith("b on two says"))
        assert told.severity is Severity.NOTE
        assert "whether it lives is not seen from here" in told.text


class TestRoots:
    ROOT = "s3a://b/checkpoint"
    CLAIM = Claim(TOKEN, "a", "c", "j", "lease")
    JOB = Job(
        *("j", "job.py", Status.RUNNING, TOKEN, TOKEN, "a"),
        roots=(ROOT,),
        claimed=ClaimedRoots(((int(TOKEN), (ROOT,)),)),
        checkpoints=Checkpoints((Checkpoint(ROOT, "flights", "parquet", 7, 1.0),)),
    )

    def looked(self, root: str, bucket: Callable[[str], BlobStore] | None, *, disks: bool = False) -> Root:
        return asyncio.run(roots.look(root, logs=True, reach=Reach(disks, bucket, 5.0)))

    def found(self, root: Root) -> list[Finding]:
        return roots.findings(root, self.JOB, self.JOB, "c", "lease")

    @pytest.mark.parametrize("last", [6, 7, 1200])
    def test_a_checkpoint_in_a_bucket(self, last: int) -> None:
        store = MemoryBlobStore()

        async def fill() -> None:
            await store.create("_understudy/claim", str(self.CLAIM.to_body()).replace("'", '"').encode())
            for batch in range(5, last + 1):
                for log in ("offsets", "commits"):
                    await store.create(f"{log}/{batch}", b"v1")

        asyncio.run(fill())
        found = self.looked(self.ROOT, lambda _: store)

        assert (found.claim, found.last) == (self.CLAIM, {"offsets": last, "commits": last})
        short = [each.text for each in grave(self.found(found))]
        words = f"{self.ROOT}: query flights has committed batch 7, and offsets end at 6 and commits end at 6"
        assert [words in each for each in short] == ([True] if last < 7 else [])

    def test_what_is_elsewhere_is_no_problem_and_is_said(self) -> None:
        for root, why in (
            (self.ROOT, "give --conf"),
            ("file:/data/c", "on a disk of the replicas"),
            ("hdfs://n/c", "reads"),
        ):
            found = one(self.found(self.looked(root, None)))
            assert found.severity is Severity.NOTE
            assert f"{root}: not looked at" in found.text
            assert why in found.text

    def test_a_bucket_that_refuses_us_says_nothing_of_the_job(self) -> None:
        def refuses(_: str) -> BlobStore:
            raise AccessDenied("the object store refuses it", where=self.ROOT, remedy="Check the credentials")

        found = one(self.found(self.looked(self.ROOT, refuses)))
        assert (found.severity, found.exit_code) == (Severity.WARNING, 0)

    def test_a_bucket_that_does_not_answer_costs_its_root_alone(self) -> None:
        class Hangs(MemoryBlobStore):
            async def read(self, name: str) -> bytes | None:
                await asyncio.sleep(3600)
                return None

        looked = asyncio.run(roots.look(self.ROOT, logs=True, reach=Reach(False, lambda _: Hangs(), 0.01)))
        found = one(self.found(looked))
        assert (found.severity, found.text) == (Severity.WARNING, f"{self.ROOT}: no answer within 0.01 s")

    def test_a_disk_that_does_not_give_a_claim_says_nothing_of_what_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "_understudy" / "claim@1").mkdir(parents=True)  # no file: to read it is an error of the disk
        (found,) = self.found(self.looked(str(tmp_path), None, disks=True))
        assert (found.severity, found.exit_code) == (Severity.WARNING, 0)
        assert "the claim cannot be read: [Errno 21]" in found.text

    def test_a_drained_checkpoint_need_not_reach_anything(self) -> None:
        drained = replace(self.JOB, checkpoints=Checkpoints((Checkpoint(self.ROOT, "", "", -1, 0.0, drained=True),)))
        found = roots.findings(Root(self.ROOT, self.CLAIM), drained, drained, "c", "lease")
        assert [each.severity for each in found] == [Severity.OK, Severity.NOTE]

    def test_multi_covers_a_claim_under_a_lease(self) -> None:
        found = roots.findings(
            Root(self.ROOT, self.CLAIM, {"offsets": 7, "commits": 7}), self.JOB, self.JOB, "c", "multi"
        )
        assert grave(found) == []

    def test_a_claim_that_is_made_meanwhile_is_no_older_record(self) -> None:
        """The job was read before its root and after it; in between another leader came."""
        later = Token(4, 1)
        root = Root(self.ROOT, replace(self.CLAIM, token=later, holder="b"), {"offsets": 7, "commits": 7})
        assert grave(roots.findings(root, self.JOB, replace(self.JOB, token=later, holder="b"), "c", "lease")) == []

    def test_whether_the_fence_is_in_force_is_known_by_claims_alone(self) -> None:
        assert roots.fence_in_force(self.JOB).severity is Severity.OK
        for unknown in (
            replace(self.JOB, token=Token(4, 1)),
            replace(self.JOB, claimed=ClaimedRoots(((int(TOKEN), (self.ROOT,)),), (self.ROOT,))),
        ):
            found = roots.fence_in_force(unknown)
            assert found.severity is Severity.NOTE
            assert "understudy_refused_writes_total" in found.remedy

    @pytest.mark.parametrize(
        ("submit", "environ", "told"),
        [
            ((), {}, False),
            (("--conf", "spark.hadoop.fs.s3a.endpoint.region=eu-west-1"), {}, True),
            ((), {"AWS_ACCESS_KEY_ID": "key"}, True),
            (("--conf", "spark.sql.shuffle.partitions=8"), {}, False),
        ],
    )
    def test_a_bucket_is_asked_where_it_was_said_how(
        self, submit: tuple[str, ...], environ: dict[str, str], told: bool
    ) -> None:
        opens = bucket_of(submit, environ)
        assert (opens is not None) is told
        if opens is not None:
            assert opens("s3a://b/p").place == "s3a://b/p"


class Replacing(MemoryBlobStore):
    """A server that ignores conditions."""

    async def create(self, name: str, data: bytes) -> bytes:
        await self.delete(name)
        return await super().create(name, data)


class Away(MemoryBlobStore):
    def __init__(self, error: UnderstudyError) -> None:
        super().__init__()
        self.error = error

    async def create(self, name: str, data: bytes) -> bytes:
        raise self.error


class TestStorage:
    FINISHED = Job(*("j", "job.py", Status.FINISHED, TOKEN, TOKEN, "a"), runs=Runs("monday", 1.0, int(TOKEN), 2.0))

    def found(self, blobs: BlobStore, job: Job | None = None) -> list[Finding]:
        return storage.findings(asyncio.run(storage.look(blobs, "c", "j")), job, "c")

    @staticmethod
    def keep(blobs: BlobStore, job: Job) -> None:
        result = result_of(job, "c")
        assert result is not None
        asyncio.run(JobResultStore(blobs, "c", "j").commit(result))

    @pytest.mark.parametrize(
        ("blobs", "code", "words"),
        [
            (Replacing(), 3, "replaces what was created"),
            (Away(AccessDenied("the object store refuses it", where="s3a://b")), 7, "refuses it"),
            (Away(ServerUnreachable("the object store does not answer", where="s3a://b")), 8, "does not answer"),
            (Away(DocumentError("there is no such bucket", where="s3a://b")), 4, "no such bucket"),
            (Away(SettingsError("the bucket is in another region")), 2, "another region"),
        ],
        ids=["replaces", "wrong keys", "away", "no bucket", "another region"],
    )
    def test_what_cannot_be_used(self, blobs: BlobStore, code: int, words: str) -> None:
        found = one(self.found(blobs))
        assert (found.severity, found.exit_code) == (Severity.PROBLEM, code)
        assert words in found.text

    def test_it_leaves_the_probe_alone_in_a_sound_one(self, tmp_path: Path) -> None:
        blobs = FilesystemBlobStore(tmp_path, 5.0)
        assert grave(self.found(blobs)) == []
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["probe"]

    def test_a_directory_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        found = one(self.found(FilesystemBlobStore(tmp_path / "nowhere", 5.0)))
        assert (found.severity, found.exit_code) == (Severity.WARNING, 0)
        assert not (tmp_path / "nowhere").exists()

    def test_a_result_that_is_kept_and_one_that_is_not(self) -> None:
        blobs = MemoryBlobStore()
        assert "its result is not kept here" in one(grave(self.found(blobs, self.FINISHED))).text
        self.keep(blobs, self.FINISHED)
        assert grave(self.found(blobs, self.FINISHED)) == []

    def test_an_older_document_says_that_a_run_goes_on_which_has_ended(self) -> None:
        blobs = MemoryBlobStore()
        self.keep(blobs, self.FINISHED)
        restored = replace(self.FINISHED, status=Status.RUNNING)
        found = one(grave(self.found(blobs, restored)))
        assert (found.severity, found.exit_code) == (Severity.PROBLEM, 4)
        assert "run monday of job j is FINISHED, and its document says RUNNING" in found.text
        assert grave(self.found(blobs, replace(restored, runs=Runs("tuesday", 3.0, 1 << 40)))) == []

    def test_a_result_that_cannot_be_read(self) -> None:
        blobs = MemoryBlobStore()
        asyncio.run(blobs.create("job-results/c/j/monday/result.json", b"{"))
        assert one(grave(self.found(blobs))).exit_code == 4


class TestMachine:
    BAD = EnvironmentProblem("none of it will do", where="x", remedy="Install it")

    @pytest.mark.parametrize(
        ("changes", "check"), [({"java": BAD}, "java"), ({"fence": BAD}, "fence-jar"), ({"apart": 7.0}, "clocks")]
    )
    def test_what_will_not_do(self, changes: dict[str, object], check: str) -> None:
        found = one(grave(machine.findings(replace(SOUND, **changes), pod=False)))  # type: ignore[arg-type]
        assert (found.severity, found.check, found.exit_code) == (Severity.PROBLEM, check, 3)
        assert found.remedy

    def test_pyspark_is_expected_in_a_pod_and_on_no_laptop(self) -> None:
        without = machine.Machine(self.BAD)
        assert one(machine.findings(without, pod=True)).exit_code == 3
        assert one(machine.findings(without, pod=False)).severity is Severity.NOTE

    def test_this_machine_has_what_a_driver_needs(self) -> None:
        assert grave(machine.findings(machine.look(), pod=True)) == []


class Breaks(MemoryBlobStore):
    async def create(self, name: str, data: bytes) -> bytes:
        raise LookupError(name)


def test_a_check_that_breaks_off_says_so_and_keeps_no_other_from_being_made(tmp_path: Path) -> None:
    found = examined(tmp_path, here=Here(local=True, pod=False, blobs=Breaks(), machine=lambda: SOUND))

    (broken,) = grave(found)
    assert (broken.check, broken.severity) == ("ha-storage", Severity.WARNING)
    assert "the check broke off: LookupError" in broken.text
    assert {"lock", "claims", "java"} <= {each.check for each in found}


def test_where_there_is_no_cluster_the_machine_is_looked_at() -> None:
    report = asyncio.run(
        examine_here(Here(local=True, pod=False, machine=lambda: SOUND), note("documents", "no cluster"))
    )

    assert (report.cluster, report.job) == ("", "")
    assert {each.check for each in report.findings} == {
        "documents",
        "ha-storage",
        "pyspark",
        "java",
        "fence-jar",
        "clocks",
    }


def test_without_the_binding_the_job_can_be_named(tmp_path: Path) -> None:
    async def unbound(ward: Ward) -> None:
        await ward.entry("c-replicas", "cluster", None)

    found = examined(tmp_path, unbound)
    assert any("Name it with --job-id" in each.remedy for each in found)
    assert not any(each.check == "checkpoints" for each in found)
