"""A replica without a script: what it waits for, what it fetches, and what it runs then."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.blobs import MemoryBlobStore
from understudy.config.timings import Timings
from understudy.config.tree import Storage
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import DocumentError, DocumentUnreadable, EnvironmentProblem, IdentityConflict, SettingsError
from understudy.events import Log
from understudy.ha.artifacts import ArtifactStore
from understudy.ha.draft import Draft, submit
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.services import HighAvailabilityServices
from understudy.ha.submissions import Submission
from understudy.protocol.names import Names
from understudy.supervisor.hosts import this_machine
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.submitted import WAITS, Submitted, fetch

NAMES = Names("c", "j")


async def never() -> int:
    return 0


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


@dataclass
class Machine:
    """One on which replicas of job ``j`` may run. ``blobs``: the HA storage."""

    home: Path
    blobs: MemoryBlobStore
    closed: int = 0

    @property
    def documents(self) -> FilesystemDocumentStore:
        return FilesystemDocumentStore(self.home / "ha" / "c" / "documents", 5.0)

    @property
    def artifacts(self) -> ArtifactStore:
        return ArtifactStore(self.blobs, NAMES)

    def settings(self, *options: str) -> RunSettings:
        storage = Storage(ha_storage=str(self.home / "storage"))
        fast = replace(Timings(), retry=0.05)
        return RunSettings(Path(), (), options, "c", "j", self.home / "ha", fast, submitted=True, storage=storage)

    def replica(self, *options: str) -> Submitted:
        settings = self.settings(*options)

        async def close() -> None:
            self.closed += 1

        services = HighAvailabilityServices(self.documents, self.documents, close=close)
        made = Submitted.of(settings, services, this_machine(settings), Log(stream=io.StringIO()))
        made.blobs = self.blobs
        return made

    async def submit(self, *options: str, text: str = "print(1)", arguments: tuple[str, ...] = ()) -> Submission:
        (self.home / "job.py").write_text(text)
        for name in ("lib.py", "other/lib.py", "env.tgz"):
            (self.home / name).parent.mkdir(exist_ok=True)
            (self.home / name).write_text(name)
        draft = Draft.of(options, str(self.home / "job.py"), arguments)
        jobs = JobStore(self.documents, NAMES.job_document, NAMES.job, "")
        return (await submit(jobs, self.artifacts, draft, never, by="anna", at=1.0))[0]

    async def replicas(self) -> list[Replica]:
        return await ReplicaStore(self.documents, NAMES.replicas).read()

    async def said(self) -> Replica:
        """What the one replica says of itself, once it does."""
        while True:
            if found := await self.replicas():
                return found[0]
            await asyncio.sleep(0.01)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, MemoryBlobStore())


class TestFetch:
    def test_a_driver_is_started_with_all_that_was_submitted_and_the_replicas_own_options_win(
        self, machine: Machine, tmp_path: Path
    ) -> None:
        no_text = os.fsdecode(b"\xff")  # an argument may be any bytes

        async def script() -> None:
            listed = ("--py-files", f"{machine.home}/lib.py,s3a://b/x.whl", "--archives", f"{machine.home}/env.tgz#env")
            one = await machine.submit(
                *listed, "--files", f"{machine.home}/other/lib.py", "-c", "a=b", arguments=("1", no_text)
            )
            there = tmp_path / "there"
            there.mkdir()
            own = ("--master", "local", "--py-files", "own.zip", "--conf", f"a={no_text}")
            found = await fetch(machine.settings(*own), machine.artifacts, one, there)
            assert (found.script, found.arguments, found.submission) == (there / "script" / "job.py", ("1", no_text), 1)
            assert found.script.read_text() == "print(1)"
            assert [path.name for path in found.script.parent.iterdir()] == ["job.py"]
            words = [word.replace(str(there), "") for word in found.submit]
            assert words == [
                *(
                    "-c",
                    "a=b",
                    "--py-files",
                    "/0/lib.py,s3a://b/x.whl",
                    "--files",
                    "/2/lib.py",
                    "--archives",
                    "/3/env.tgz#env",
                ),
                *("--master", "local", "--conf", f"a={no_text}", "--py-files", "/0/lib.py,s3a://b/x.whl,own.zip"),
            ]
            assert (there / "0" / "lib.py").read_text() == "lib.py"
            assert (there / "2" / "lib.py").read_text() == "other/lib.py"

        run(script)

    def test_replicas_run_the_same_code_wherever_they_keep_it_unless_their_own_options_differ(
        self, machine: Machine, tmp_path: Path
    ) -> None:
        async def script() -> None:
            one = await machine.submit("--py-files", f"{machine.home}/lib.py")
            digests = []
            for name, own in (("a", ()), ("b", ()), ("c", ("--conf", "a=b"))):
                (tmp_path / name).mkdir()
                found = await fetch(machine.settings(*own), machine.artifacts, one, tmp_path / name)
                digests.append(found.digest)
            assert digests[0] == digests[1] != digests[2]

        run(script)

    def test_a_disk_that_does_not_take_it_is_told(self, machine: Machine, tmp_path: Path) -> None:
        async def script() -> None:
            one = await machine.submit()
            (tmp_path / "script").write_text("a file")
            with pytest.raises(EnvironmentProblem, match="Make room below --ha-dir"):
                await fetch(machine.settings(), machine.artifacts, one, tmp_path)
            (machine.home / "ha" / "c" / "artifacts").write_text("a file")
            with pytest.raises(EnvironmentProblem, match="Make room below --ha-dir"):
                await machine.replica().fetched()
            assert machine.closed == 1

        run(script)

    def test_without_ha_storage_there_is_nothing_to_fetch_from(self, machine: Machine) -> None:
        with pytest.raises(SettingsError, match="--submitted: there is no HA storage"):
            replace(machine.settings(), storage=Storage())


class TestAReplica:
    def test_it_waits_says_so_and_fetches_what_comes(self, machine: Machine) -> None:
        async def script() -> None:
            replica = machine.replica()
            waiting = asyncio.create_task(replica.fetched())
            said = await machine.said()
            assert (said.role, said.rehearsed, said.reason) == ("standby", False, WAITS)
            assert (replica.health.live, replica.health.ready) == (True, (True, WAITS))
            await machine.submit()
            found = await waiting
            assert found is not None
            assert found.settings.script.read_text() == "print(1)"
            assert machine.closed == 0
            found.directory.remove()

        run(script)

    @pytest.mark.parametrize("what", ["documents", "storage"])
    def test_a_server_that_fails_now_and_then_does_not_end_it(
        self, machine: Machine, what: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = False

        async def read(self: JobStore) -> Job | None:
            if failing and what == "documents":
                raise DocumentError("503: etcdserver: leader changed", where="c-j")
            return await known(self)

        async def script() -> None:
            nonlocal failing
            replica = machine.replica()
            machine.blobs.fault = lambda verb: "lost" if failing and (what, verb) == ("storage", "read") else ""
            waiting = asyncio.create_task(replica.fetched())
            await machine.said()
            failing = True
            if what == "storage":
                await machine.submit()
            await asyncio.sleep(0.2)
            assert not waiting.done()
            failing = False
            if what == "documents":
                await machine.submit()
            found = await waiting
            assert found is not None
            found.directory.remove()

        known = JobStore.read
        monkeypatch.setattr(JobStore, "read", read)
        run(script)

    def test_one_that_is_told_to_stop_leaves_nothing(self, machine: Machine) -> None:
        async def script() -> None:
            replica = machine.replica()
            waiting = asyncio.create_task(replica.fetched())
            await machine.said()
            replica.told_to_stop.set()
            assert await waiting is None
            assert await machine.replicas() == []
            assert machine.closed == 1

        run(script)

    def test_one_that_is_told_to_stop_while_it_fetches_starts_nothing(self, machine: Machine) -> None:
        async def script() -> None:
            await machine.submit()
            replica = machine.replica()

            def fault(_: str) -> str:
                replica.told_to_stop.set()
                return ""

            machine.blobs.fault = fault
            assert await replica.fetched() is None
            assert machine.closed == 1
            assert list((machine.home / "ha" / "c" / "artifacts").iterdir()) == []

        run(script)

    def test_another_submission_that_comes_while_it_fetches_is_fetched_instead(self, machine: Machine) -> None:
        async def script() -> None:
            await machine.submit()
            waits, goes_on = asyncio.Event(), asyncio.Event()
            read = machine.blobs.read

            class Slow(MemoryBlobStore):
                async def read(self, name: str) -> bytes | None:
                    if not waits.is_set():
                        waits.set()
                        await goes_on.wait()
                    return await read(name)

            replica = machine.replica()
            replica.blobs = Slow()
            fetching = asyncio.create_task(replica.fetched())
            await waits.wait()
            await machine.submit(text="print(2)")
            assert await machine.blobs.discard("artifacts/c/j/1/") == 2, "as a cleanup does"
            goes_on.set()
            found = await fetching
            assert found is not None
            assert (found.settings.submission, found.settings.script.read_text()) == (2, "print(2)")
            assert len(list((machine.home / "ha" / "c" / "artifacts").iterdir())) == 1
            found.directory.remove()

        run(script)

    def test_what_is_gone_or_spoiled_ends_it(self, machine: Machine) -> None:
        async def script() -> None:
            await machine.submit()
            machine.blobs.stored = dict.fromkeys(machine.blobs.stored, b"tampered")
            with pytest.raises(DocumentUnreadable, match="is not what was submitted"):
                await machine.replica().fetched()
            machine.blobs.stored = {}
            with pytest.raises(DocumentUnreadable, match="has no manifest"):
                await machine.replica().fetched()
            assert machine.closed == 2
            assert list((machine.home / "ha" / "c" / "artifacts").iterdir()) == []

        run(script)

    def test_what_dead_replicas_have_fetched_goes(self, machine: Machine) -> None:
        async def script() -> None:
            left = machine.home / "ha" / "c" / "artifacts" / "understudy-driver-dead"
            left.mkdir(parents=True)
            await machine.submit()
            first = await machine.replica().fetched()
            second = await machine.replica().fetched()
            assert first is not None
            assert second is not None
            assert {*left.parent.iterdir()} == {first.directory.path, second.directory.path}
            first.directory.remove()
            second.directory.remove()

        run(script)

    def test_a_cluster_id_of_another_job_is_refused(self, machine: Machine) -> None:
        async def script() -> None:
            await ReplicaStore(machine.documents, NAMES.replicas).join("other")
            with pytest.raises(IdentityConflict):
                await machine.replica().fetched()

        run(script)
