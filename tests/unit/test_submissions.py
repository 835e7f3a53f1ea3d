"""What is submitted for a job: its entry and its files, what is refused, and what is removed of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.blobs import MemoryBlobStore
from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.blobs.digest import sha256
from understudy.documents import codec
from understudy.documents.model import Content
from understudy.errors import DocumentEmptied, DocumentUnreadable, RequestRefused, ScriptProblem, SettingsError
from understudy.ha import draft as drafts
from understudy.ha.artifacts import ArtifactStore, File, Manifest, beyond, give, take_back, unreferenced
from understudy.ha.cleanup import Facts, Leftover, Place, plan
from understudy.ha.draft import Draft, submit
from understudy.ha.generation import Generation, Superseded
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.results import JobResult, as_job
from understudy.ha.submissions import ENTRY, Submission, Submissions
from understudy.protocol.names import Names
from understudy.protocol.token import NONE, Token

NAMES = Names("c", "j")
FIRST, SECOND = Submission(1, "a" * 64, "job.py", "anna", 10.0), Submission(2, "b" * 64, "job.py", "bert", 20.0)


@dataclass
class Stores:
    """Of job ``j`` of cluster ``c``, in memory; the script that is submitted is on a disk."""

    home: Path
    server: MemoryServer = field(default_factory=MemoryServer)
    blobs: MemoryBlobStore = field(default_factory=MemoryBlobStore)

    @property
    def documents(self) -> MemoryDocumentStore:
        return MemoryDocumentStore(self.server)

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.documents, NAMES.job_document, NAMES.job, "")

    @property
    def artifacts(self) -> ArtifactStore:
        return ArtifactStore(self.blobs, NAMES)

    def draft(self, *submit: str, script: str = "print(1)", arguments: tuple[str, ...] = ()) -> Draft:
        (self.home / "job.py").write_text(script)
        return Draft.of(submit, str(self.home / "job.py"), arguments)

    async def submit(self, draft: Draft, epoch: int = 0) -> tuple[Submission, bool]:
        async def known() -> int:
            return epoch

        return await submit(self.jobs, self.artifacts, draft, known, by="anna", at=10.0)

    def spoil(self, name: str) -> None:
        """Another program's work."""
        self.blobs.stored[name] = b"tampered"

    async def job(self) -> Job:
        job = await self.jobs.read()
        assert job is not None
        return job


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


def job_with(submissions: Submissions) -> Job:
    return Job("j", "job.py", Status.RUNNING, Token(1, 1), NONE, "a", submissions=submissions)


class TestTheEntry:
    def test_a_job_that_was_submitted_before_it_had_a_leader_is_begun_by_its_first_one(self, stores: Stores) -> None:
        async def script() -> None:
            one, news = await stores.submit(stores.draft())
            assert (one.number, one.script, news) == (1, "job.py", True)
            job = await stores.job()
            assert (job.token, job.status, job.submissions) == (NONE, Status.RUNNING, Submissions(1, one))
            led = await stores.jobs.begin_attempt(1, "a", nothing_granted, Generation())
            assert (led.token, led.submissions) == (Token(1, 1), Submissions(1, one))

        run(script)

    def test_leaders_and_replicas_that_know_nothing_of_it_keep_it(self, stores: Stores) -> None:
        async def script() -> None:
            one, _ = await stores.submit(stores.draft())
            led = await stores.jobs.begin_attempt(1, "a", nothing_granted, Generation())
            await stores.jobs.committed(led.token, 5.0)
            ended = await stores.jobs.end(led.token, Status.FINISHED, "")
            assert ended.submissions.current == one

        run(script)

    def test_it_outlives_the_record_that_is_brought_back_from_results(self, stores: Stores) -> None:
        async def script() -> None:
            one, _ = await stores.submit(stores.draft())
            result = JobResult("c", "j", "1", "FINISHED", "", int(Token(3, 1)), int(Token(2, 1)), 1.0, 2.0)
            job = await stores.jobs.recall(as_job([result]))
            assert (job.status, job.submissions.current) == (Status.FINISHED, one)
            assert (await stores.job()).submissions.current == one

        run(script)

    @pytest.mark.parametrize(
        "text", ["", "{}", codec.encode(ENTRY, 1, {"last": "1", "current": None}), codec.encode(ENTRY, 1, {"last": 1})]
    )
    def test_one_that_cannot_be_read_keeps_no_job_from_running_and_is_not_written_over(
        self, stores: Stores, text: str
    ) -> None:
        async def script() -> None:
            await stores.submit(stores.draft())
            seen = await stores.documents.read("c-j")
            assert seen is not None
            await stores.documents.replace(seen, Content({**seen.entries, ENTRY: text}, labels=seen.labels))
            led = await stores.jobs.begin_attempt(1, "a", nothing_granted, Generation())
            assert not led.submissions.readable
            with pytest.raises(DocumentUnreadable, match="entry submitted cannot be read"):
                await stores.submit(stores.draft(script="print(2)"))
            found = await stores.documents.read("c-j")
            assert found is not None
            assert found.entries[ENTRY] == text
            assert Submissions(readable=False).entries(Submissions(1, FIRST)) == {}

        run(script)

    def test_a_record_that_is_gone_is_not_begun_again(self, stores: Stores) -> None:
        async def script() -> None:
            with pytest.raises(DocumentEmptied):
                await stores.submit(stores.draft(), epoch=3)
            assert stores.blobs.stored == {}
            assert await stores.jobs.read() is None

        run(script)

    def test_a_record_that_was_begun_where_another_was_lost_is_led_by_no_replica_that_knows_better(
        self, stores: Stores
    ) -> None:
        async def granted_before() -> int:
            return 3

        async def script() -> None:
            await stores.submit(stores.draft())
            with pytest.raises(DocumentEmptied, match="the record of the job that was led is gone"):
                await stores.jobs.begin_attempt(4, "a", granted_before, Generation())
            assert (await stores.job()).token == NONE

        run(script)


class TestNumbers:
    def test_the_same_again_changes_nothing_and_another_one_has_the_next_number(self, stores: Stores) -> None:
        async def script() -> None:
            first, _ = await stores.submit(stores.draft())
            assert await stores.submit(stores.draft()) == (first, False)
            assert (await stores.submit(stores.draft(arguments=("x",))))[0].number == 2
            assert (await stores.submit(stores.draft("--conf", "a=b")))[0].number == 3

        run(script)

    @pytest.mark.parametrize("gone", [True, False])
    def test_the_same_again_is_stored_again_where_something_of_it_is_gone_or_spoiled(
        self, stores: Stores, gone: bool
    ) -> None:
        async def script() -> None:
            await stores.submit(stores.draft())
            name = f"artifacts/c/j/1/{sha256(b'print(1)')}"
            if gone:
                del stores.blobs.stored[name]
            else:
                stores.spoil(name)
            one, news = await stores.submit(stores.draft())
            assert (one.number, news) == (2, True)
            assert await stores.artifacts.is_whole(one)

        run(script)

    def test_a_number_that_was_used_meanwhile_is_refused_and_one_whose_answer_was_lost_is_not(self) -> None:
        job = give(FIRST)(job_with(Submissions()))
        assert give(FIRST)(job) == job
        other = replace(FIRST, by="bert")
        for standing in (job, job_with(Submissions(1)), take_back(1)(job_with(Submissions()))):
            with pytest.raises(RequestRefused, match="number 1 was used meanwhile"):
                give(other)(standing)
        with pytest.raises(RequestRefused):
            give(SECOND)(job_with(Submissions(readable=False)))

    def test_to_take_a_number_back_leaves_what_runs_and_gives_no_number_twice(self) -> None:
        known = take_back(5)(job_with(Submissions(2, SECOND))).submissions
        assert known == Submissions(5, SECOND)
        assert known.taken_back(3) == known

    def test_of_two_submitters_at_once_one_is_refused_and_what_runs_is_whole(self, stores: Stores) -> None:
        async def script() -> None:
            first, second = stores.draft(arguments=("1",)), stores.draft(arguments=("2",))
            told = await asyncio.gather(stores.submit(first), stores.submit(second), return_exceptions=True)
            assert sorted(type(each) is RequestRefused for each in told) == [False, True]
            current = (await stores.job()).submissions.current
            assert current is not None
            assert await stores.artifacts.is_whole(current)

        run(script)


class TestGenerations:
    OLD, NEW = Generation(1, "old", "w", 1), Generation(1, "new", "w", 2)

    def test_a_later_submission_is_newer_in_one_revision_of_a_deployment(self) -> None:
        self.NEW.check(self.OLD)
        with pytest.raises(Superseded, match="1 .new, submission 2. has led, and this is 1 .old, submission 1."):
            self.OLD.check(self.NEW)

    def test_one_that_has_fetched_an_earlier_submission_late_is_no_rollback(self) -> None:
        standing = Generation(2, "new", "", 2)
        late = Generation(0, "old", "", 1).numbered(standing)
        with pytest.raises(Superseded):
            late.check(standing)
        Generation(0, "other", "", 3).numbered(standing).check(standing)
        assert Generation(0, "script", "").numbered(standing).number == 3

    def test_one_without_a_number_stands_as_replicas_have_always_written_it(self) -> None:
        assert Generation(1, "d", "w").body() == {"number": 1, "digest": "d", "workload": "w"}
        assert self.NEW.body()["submission"] == 2

    def test_it_stands_in_the_record(self, stores: Stores) -> None:
        async def script() -> None:
            await stores.submit(stores.draft())
            await stores.jobs.begin_attempt(1, "a", nothing_granted, self.NEW)
            assert (await stores.job()).generation == self.NEW
            with pytest.raises(Superseded):
                await stores.jobs.begin_attempt(2, "b", nothing_granted, self.OLD)

        run(script)


class TestFiles:
    def test_what_was_stored_is_what_is_fetched_and_nothing_else_is(self, stores: Stores) -> None:
        async def script() -> None:
            (stores.home / "lib.py").write_text("x = 1")
            draft = stores.draft("--py-files", f"{stores.home}/lib.py,s3a://b/x.whl", "--conf", "a=b", arguments=("1",))
            one, _ = await stores.submit(draft)
            manifest = await stores.artifacts.manifest(one)
            assert manifest.submit == ["--conf", "a=b"]
            attached = [(each.option, each.name, each.url) for each in manifest.attached]
            assert attached == [("--py-files", "lib.py", ""), ("--py-files", "", "s3a://b/x.whl")]
            assert [await stores.artifacts.fetch(1, each) for each in manifest.files] == [b"print(1)", b"x = 1"]

        run(script)

    def test_a_file_that_is_not_what_was_submitted_is_refused(self, stores: Stores) -> None:
        async def script() -> None:
            one, _ = await stores.submit(stores.draft())
            for name in [*stores.blobs.stored]:
                stores.spoil(name)
            with pytest.raises(DocumentUnreadable, match="manifest of submission 1 is not what was submitted"):
                await stores.artifacts.manifest(one)
            with pytest.raises(DocumentUnreadable, match="job.py of submission 1 is not what was submitted"):
                await stores.artifacts.fetch(1, File("job.py", sha256(b"print(1)"), 8))
            stores.blobs.stored.clear()
            with pytest.raises(DocumentUnreadable, match="has no manifest"):
                await stores.artifacts.manifest(one)

        run(script)

    def test_nothing_is_submitted_where_other_bytes_stand_under_a_digest(self, stores: Stores) -> None:
        async def script() -> None:
            stores.blobs.stored[f"artifacts/c/j/1/{sha256(b'print(1)')}"] = b"print(2)"
            with pytest.raises(DocumentUnreadable, match="other bytes stand under this digest"):
                await stores.submit(stores.draft())
            assert await stores.jobs.read() is None

        run(script)

    @pytest.mark.parametrize("name", ["", ".", "..", "../job.py", "a/b", "a\0b", "a\udc80"])
    def test_a_name_that_leaves_its_directory_or_is_none_elsewhere_is_refused(self, name: str) -> None:
        made = Manifest("c", "j", File(name, "0" * 64, 1), [], [], [])
        with pytest.raises(DocumentUnreadable, match=r"is no name of a file|surrogates not allowed"):
            Manifest.decode(made.encode(), "there")

    def test_a_manifest_of_another_job_or_a_later_release_is_refused(self, stores: Stores) -> None:
        async def script() -> None:
            made = Manifest("c", "other", File("job.py", "0" * 64, 1), [], [], []).encode()
            await stores.artifacts.keep(1, made)
            with pytest.raises(DocumentUnreadable, match="is of job other of cluster c"):
                await stores.artifacts.manifest(replace(FIRST, manifest=sha256(made)))
            with pytest.raises(DocumentUnreadable, match="its version is 2"):
                Manifest.decode(made.replace(b'"version": 1', b'"version": 2'), "there")
            with pytest.raises(DocumentUnreadable, match="none of ours"):
                Manifest.decode(b"{}", "there")

        run(script)


class TestDrafts:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--master", "local"], "--master: where a job runs"),
            (["--conf", "spark.master=local"], "spark.master: where a job runs"),
            (["--deploy-mode=client"], "--deploy-mode: where a job runs"),
            (["--keytab", "k"], "--keytab: what is submitted is kept"),
            (["--properties-file", "k"], "--properties-file: what is submitted is kept"),
            (["--conf", "spark.hadoop.fs.s3a.secret.key=x"], "--conf: the value of spark.hadoop.fs.s3a.secret.key"),
            (["-c", "spark.my.password=x"], "--conf: the value of spark.my.password"),
            (["--py-files", "missing.py"], "--py-files: missing.py is no file"),
            (["-c", "spark.files=/"], "spark.files: / is no file"),
            (["--files", "/*.none"], r"--files: /\*.none is no file"),
        ],
    )
    def test_what_belongs_elsewhere_or_is_not_there_is_named(self, stores: Stores, words: list[str], said: str) -> None:
        with pytest.raises(SettingsError, match=said):
            stores.draft(*words)

    def test_a_class_that_provides_credentials_is_no_secret(self, stores: Stores) -> None:
        words = ("-c", "spark.hadoop.fs.s3a.aws.credentials.provider=org.example.Provider")
        assert stores.draft(*words).submit == words

    def test_a_script_that_is_missing_and_a_file_that_is_too_large_are_named(
        self, stores: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(ScriptProblem, match="no such script"):
            Draft.of((), str(stores.home / "job.py"), ())
        monkeypatch.setattr(drafts, "LARGEST", 7)
        with pytest.raises(SettingsError, match="has 8 bytes, and 7 are the most"):
            stores.draft()

    def test_a_file_that_changes_while_it_is_stored_is_not_submitted(self, stores: Stores) -> None:
        async def script() -> None:
            draft = stores.draft()
            (stores.home / "job.py").write_text("print(2)")
            with pytest.raises(SettingsError, match="has changed since it was looked at"):
                await stores.submit(draft)
            (stores.home / "job.py").unlink()
            with pytest.raises(SettingsError, match="cannot be read any more"):
                await stores.submit(draft)
            assert await stores.jobs.read() is None

        run(script)

    def test_what_a_file_is_to_be_called_stays_with_it(self, stores: Stores) -> None:
        (stores.home / "env.tgz").write_bytes(b"e")
        draft = stores.draft("--archives", f"file://{stores.home}/env.tgz#env,local:/opt/x.zip#x")
        assert [(each.name, each.url, each.alias) for each in draft.attached] == [
            ("env.tgz", "", "env"),
            ("", "local:/opt/x.zip", "x"),
        ]
        assert draft.submit == ()

    def test_files_are_named_by_an_address_or_a_pattern_or_a_setting_too(self, stores: Stores) -> None:
        ((home := stores.home) / "a.py").write_text("a")
        draft = stores.draft("-c", f"spark.submit.pyFiles={home}/*.py", "--jars", f"file:{home}/a.py,hdfs:/d.jar")
        assert [each.name or each.url for each in draft.attached] == ["a.py", "hdfs:/d.jar", "a.py", "job.py"]
        assert not draft.submit
        with pytest.raises(SettingsError, match="--files: 2 files are to be called x"):
            stores.draft("--files", f"{home}/*.py#x")


class TestWhatGoes:
    THERE = ("artifacts/c/j/1/x", "artifacts/c/j/1/y", "artifacts/c/j/2/m", "artifacts/c/j/2/n", "artifacts/c/j/3/z")
    KNOWN = Submissions(2, SECOND)

    def test_earlier_submissions_and_what_the_last_one_does_not_name_go_and_later_ones_stay(self) -> None:
        needed = ["artifacts/c/j/2/m"]
        assert unreferenced(self.THERE, needed, self.KNOWN, NAMES) == ("artifacts/c/j/1/", "artifacts/c/j/2/n")
        assert plan(Facts("c", job=job_with(self.KNOWN), artifacts=self.THERE, needed=needed)) == (
            Leftover(Place.ARTIFACTS, "artifacts/c/j/1/", "replicas that start run submission 2"),
            Leftover(Place.ARTIFACTS, "artifacts/c/j/2/n", "replicas that start run submission 2"),
        )

    def test_where_it_is_unknown_what_the_last_one_names_all_of_it_stays(self) -> None:
        assert unreferenced(self.THERE, None, self.KNOWN, NAMES) == ("artifacts/c/j/1/",)
        assert unreferenced(self.THERE, [], replace(self.KNOWN, readable=False), NAMES) == ()

    def test_what_broke_off_goes_once_its_number_is_taken_back(self) -> None:
        assert beyond(self.THERE, self.KNOWN, NAMES) == 3
        known = self.KNOWN.taken_back(3)
        assert beyond(self.THERE, known, NAMES) == 0
        assert unreferenced(self.THERE, None, known, NAMES) == ("artifacts/c/j/1/", "artifacts/c/j/3/")

    @pytest.mark.parametrize("name", ["artifacts/c/other/1/x", "artifacts/c/j/x/1", "results/1", "artifacts/c/j/0/x"])
    def test_what_is_none_of_it_is_never_found(self, name: str) -> None:
        assert unreferenced([name], [], self.KNOWN, NAMES) == ()
        assert beyond([name], Submissions(), NAMES) == 0
