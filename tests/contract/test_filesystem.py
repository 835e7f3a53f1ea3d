"""What only the filesystem backend can get wrong: processes that stop or die, clocks, listings and leftovers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests.contract.backends import PATIENT, Filesystem, Stuck
from tests.contract.test_documents import NAME, standing, written
from understudy.documents.directory import filesystem_type
from understudy.documents.filesystem import FilesystemDocumentStore, check_directory
from understudy.documents.model import Conflict, Content, Document, Unknown, Written
from understudy.documents.numbered import Numbered
from understudy.errors import DocumentError, SettingsError
from understudy.threads import Threads

BEFORE = ("looked", "temporary-made", "temporary-written", "temporary-synced", "linking")
AFTER = ("linked", "directory-synced", "temporary-removed")


def temporaries(directory: Path) -> list[Path]:
    return list(directory.glob(".*.tmp"))


async def first(filesystem: Filesystem) -> Document:
    return written(await filesystem.client().create(NAME, Content({"by": "first"})))


@contextlib.contextmanager
def writer(filesystem: Filesystem, step: str, keep: float = 10.0) -> Iterator[Popen[str]]:
    """A process that is about to replace the document and stands at ``step``."""
    with filesystem.worker("write", NAME, step, str(keep)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"at {step}\n"
        try:
            yield process
        finally:
            process.kill()  # also one that stands still


def freeze(process: Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def thaw(process: Popen[str]) -> str:
    """What a frozen process believes of its write in the end."""
    process.send_signal(signal.SIGCONT)
    output, _ = process.communicate("go on\n")
    assert process.returncode == 0
    return output.strip()


def kill(process: Popen[str]) -> None:
    process.kill()
    process.wait()


# processes


@pytest.mark.parametrize("step", [*BEFORE, *AFTER])
def test_a_process_killed_at_any_step_leaves_old_or_new_and_blocks_nobody(filesystem: Filesystem, step: str) -> None:
    async def run() -> None:
        old = await first(filesystem)
        with writer(filesystem, step) as process:
            kill(process)
        document = await standing(filesystem.client())
        if step in BEFORE:
            assert document == old
        else:
            assert document.entries == {"by": "worker"}
        written(await filesystem.client().replace(document, Content({"by": "next"})))
        assert not temporaries(filesystem.directory)

    asyncio.run(run())


@pytest.mark.parametrize("step", [*BEFORE, *AFTER])
def test_a_process_frozen_at_any_step_blocks_nobody_and_overwrites_nothing_when_it_thaws(
    filesystem: Filesystem, step: str
) -> None:
    async def run() -> None:
        old = await first(filesystem)
        with writer(filesystem, step) as process:
            freeze(process)
            document = await standing(filesystem.client())
            assert (document == old) == (step in BEFORE)
            document = written(await filesystem.client().replace(document, Content({"by": "next"})))
            assert thaw(process) == ("Conflict" if step in BEFORE else "Written")
        assert await filesystem.client().read(NAME) == document
        assert not temporaries(filesystem.directory)

    asyncio.run(run())


@pytest.mark.parametrize("step", BEFORE)
def test_a_process_that_thaws_after_its_number_was_collected_does_not_win_and_is_not_read(
    filesystem: Filesystem, step: str
) -> None:
    keep = 0.3

    async def run() -> None:
        store = FilesystemDocumentStore(filesystem.directory, PATIENT, keep=keep)
        document = await first(filesystem)
        wanted = filesystem.directory / f"{NAME}@2"
        with writer(filesystem, step, keep) as process:
            freeze(process)
            while document.revision.startswith(("1-", "2-")) or wanted.exists():
                document = written(await store.replace(document, Content({"by": "next"})))
                await asyncio.sleep(keep / 2)
            assert thaw(process) == "Conflict"
        # It looks before it links; only when it stood still between the two does its file appear, in the past.
        assert wanted.exists() == (step == "linking")
        assert await filesystem.client().read(NAME) == document
        await asyncio.sleep(keep)
        document = written(await store.replace(document, Content({"by": "next"})))
        assert not wanted.exists()
        assert await filesystem.client().read(NAME) == document

    asyncio.run(run())


def test_the_temporary_file_of_a_frozen_process_stays_and_that_of_a_dead_one_goes(filesystem: Filesystem) -> None:
    async def run() -> None:
        await first(filesystem)
        with writer(filesystem, "temporary-written") as frozen, writer(filesystem, "temporary-written") as dead:
            freeze(frozen)
            assert len(temporaries(filesystem.directory)) == 2
            kill(dead)
            Numbered(filesystem.directory).sweep()
            assert len(temporaries(filesystem.directory)) == 1
            assert thaw(frozen) == "Written"

    asyncio.run(run())


def test_a_writer_whose_temporary_file_was_swept_makes_another(filesystem: Filesystem) -> None:
    """It can be swept between its making and its locking, when the writer stands still there."""
    swept: list[Path] = []

    def sweep_once(step: str) -> None:
        if step == "linking" and not swept:
            swept.extend(temporaries(filesystem.directory))
            for path in swept:
                path.unlink()

    async def run() -> None:
        store = FilesystemDocumentStore(filesystem.directory, PATIENT, at_step=sweep_once)
        document = written(await store.create(NAME, Content({"a": "b"})))
        assert len(swept) == 1
        assert await filesystem.client().read(NAME) == document
        assert not temporaries(filesystem.directory)

    asyncio.run(run())


# time-outs


@pytest.mark.parametrize(("stuck_at", "lands"), [("temporary-synced", False), ("linking", True)])
def test_a_request_that_timed_out_lands_only_if_it_cannot_be_called_back(
    filesystem: Filesystem, stuck_at: str, lands: bool
) -> None:
    async def run() -> None:
        old = await first(filesystem)
        while True:
            at = Stuck(stuck_at)
            store = FilesystemDocumentStore(filesystem.directory, 1.5, at_step=at)
            outcome = await store.replace(old, Content({"by": "late"}))
            assert isinstance(outcome, Unknown)
            assert NAME in outcome.cause
            if at.reached.is_set():
                break
            at.go_on.set()  # it had no time to get there
        assert await filesystem.client().read(NAME) == old
        at.go_on.set()
        assert await asyncio.to_thread(at.ended.wait, PATIENT)
        assert ((await standing(filesystem.client())).entries == {"by": "late"}) == lands

    asyncio.run(run())


def test_reading_from_a_disk_that_hangs_is_an_error_after_the_time_out(tmp_path: Path) -> None:
    """A FIFO without a writer hangs the process that opens it, as a dead disk does."""

    async def run() -> None:
        os.mkfifo(tmp_path / f"{NAME}@1")
        store = FilesystemDocumentStore(tmp_path, 0.05)
        with pytest.raises(DocumentError, match=r"no answer within 0\.05 s"):
            await store.read(NAME)
        assert isinstance(await store.create(NAME, Content()), Unknown)
        for _ in range(2):  # lets the two threads go
            descriptor = os.open(tmp_path / f"{NAME}@1", os.O_RDWR)
            await asyncio.sleep(0.05)
            os.close(descriptor)

    asyncio.run(run())


def hanging() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "document-io"]


def test_a_disk_that_hangs_for_long_does_not_use_up_all_threads() -> None:
    async def run() -> None:
        go_on = threading.Event()
        threads = Threads()
        for _ in range(32):
            with pytest.raises(TimeoutError):
                await threads.call(go_on.wait, 0.001)
        before = hanging()
        with pytest.raises(TimeoutError, match="hang already"):
            await threads.call(go_on.wait, PATIENT)
        assert hanging() == before
        go_on.set()
        for thread in before:
            thread.join(PATIENT)
        assert await threads.call(lambda: 7, PATIENT) == 7

    asyncio.run(run())


def test_a_hanging_request_keeps_nobody_from_leaving(tmp_path: Path) -> None:
    script = (
        "import asyncio, time\n"
        "from understudy.threads import Threads\n"
        "async def main():\n"
        "    try:\n"
        "        await Threads().call(lambda: time.sleep(600), 0.01)\n"
        "    except TimeoutError:\n"
        "        print('left')\n"
        "asyncio.run(main())\n"
    )
    file = tmp_path / "hang.py"
    file.write_text(script)
    hooks = Path(__file__).parents[2] / "hooks"
    environment = {**os.environ, "PYTHONPATH": str(hooks)}
    command = [sys.executable, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENT, check=True)
    assert done.stdout == "left\n"


# numbers, and what happens to old ones


class Script:
    """A clock that shows the given times, and does things between two of them; the last time stays."""

    def __init__(self, *steps: float | Callable[[], object]) -> None:
        self._steps = iter(steps)
        self.time = 0.0

    def __call__(self) -> float:
        for step in self._steps:
            if isinstance(step, float):
                self.time = step
                break
            step()
        return self.time


def touch(directory: Path, number: int, text: str = "x") -> None:
    (directory / f"{NAME}@{number}").write_text(text)


def remove(directory: Path, number: int) -> None:
    (directory / f"{NAME}@{number}").unlink()


def test_a_superseded_file_is_kept_for_a_while_and_then_removed(tmp_path: Path) -> None:
    now = 0.0
    files = Numbered(tmp_path, keep=10.0, clock=lambda: now)
    for number in range(1, 6):
        assert files.publish(NAME, number, b"x", now)
        files.collect(NAME, number)
        now += 4.0
    # 1 to 5 appeared at 0, 4, 8, 12 and 16. At 16 only what 2 superseded had been superseded for 10 s.
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{NAME}@{number}" for number in range(2, 6)]


def test_files_of_names_that_begin_alike_are_left_alone(tmp_path: Path) -> None:
    now = 0.0
    files = Numbered(tmp_path, keep=1.0, clock=lambda: now)
    others = [
        f"{NAME}-2@1",
        f"x{NAME}@1",
        f"{NAME}@099",
        f"{NAME}@²",
        f"{NAME}@",
        f"{NAME}@1.bak",
        f"{NAME}@-1",
        "README",
    ]
    for other in others:
        (tmp_path / other).touch()
    for number in range(1, 4):
        assert files.publish(NAME, number, b"x", now)
        files.collect(NAME, number)
        now += 2.0
    files.sweep()
    assert files.highest(NAME) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, f"{NAME}@2", f"{NAME}@3"])


def test_a_listing_during_which_one_stood_still_is_made_again(tmp_path: Path) -> None:
    touch(tmp_path, 9)

    def meanwhile() -> None:
        touch(tmp_path, 10)
        remove(tmp_path, 9)

    files = Numbered(tmp_path, keep=10.0, clock=Script(0.0, meanwhile, 5.0, 5.1))
    assert files.highest(NAME) == 10


def test_a_disk_too_slow_to_be_listed_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path, 9)
    files = Numbered(tmp_path, keep=10.0, clock=Script(*[float(10 * step) for step in range(10)]))
    with pytest.raises(OSError, match="took longer"):
        files.highest(NAME)


def test_a_file_published_into_the_past_between_listing_and_reading_is_not_read(tmp_path: Path) -> None:
    touch(tmp_path, 6, "the sixth")

    def meanwhile() -> None:
        """We stand still, six is superseded and removed, and a writer that thaws links its own six."""
        touch(tmp_path, 6, "never counted")
        touch(tmp_path, 9, "the ninth")

    files = Numbered(tmp_path, keep=10.0, clock=Script(0.0, 0.1, 0.2, meanwhile, 20.0))
    assert files.read(NAME) == (9, b"the ninth")


def test_files_restored_from_a_backup_are_not_collected(tmp_path: Path) -> None:
    now = 0.0
    files = Numbered(tmp_path, keep=1.0, clock=lambda: now)
    touch(tmp_path, 9)
    assert files.highest(NAME) == 9
    now = 5.0
    remove(tmp_path, 9)
    touch(tmp_path, 3)
    assert files.highest(NAME) == 3
    assert files.publish(NAME, 4, b"x", now)
    files.collect(NAME, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{NAME}@3", f"{NAME}@4"]


def test_a_document_restored_under_the_same_number_is_not_the_one_that_was_seen(filesystem: Filesystem) -> None:
    async def run() -> None:
        seen = await first(filesystem)
        restored = filesystem.stored(NAME)
        filesystem.remove(NAME)
        other = written(await filesystem.client().create(NAME, Content({"by": "other"})))
        assert await filesystem.client().replace(seen, Content({"by": "me"})) == Conflict(other)
        (filesystem.directory / f"{NAME}@1").write_bytes(restored)
        assert isinstance(await filesystem.client().replace(seen, Content({"by": "me"})), Written)

    asyncio.run(run())


def test_a_long_name_leaves_room_for_its_number(filesystem: Filesystem) -> None:
    async def run() -> None:
        store = filesystem.client()
        written(await store.create("a" * 230, Content()))
        with pytest.raises(DocumentError, match="too long"):
            await store.create("a" * 231, Content())

    asyncio.run(run())


def test_a_link_where_the_document_should_be_is_not_followed(filesystem: Filesystem) -> None:
    async def run() -> None:
        await first(filesystem)
        elsewhere = filesystem.directory / "elsewhere"
        (filesystem.directory / f"{NAME}@1").rename(elsewhere)
        (filesystem.directory / f"{NAME}@1").symlink_to(elsewhere)
        with pytest.raises(DocumentError, match="symbolic links"):
            await filesystem.client().read(NAME)

    asyncio.run(run())


def inotify_instances() -> int:
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += entry.readlink().name == "anon_inode:inotify"
    return found


def test_a_watcher_gives_its_inotify_instance_back_when_nobody_listens_any_more(filesystem: Filesystem) -> None:
    async def run() -> None:
        before = inotify_instances()
        watch = filesystem.client().watch(NAME)
        assert await anext(watch) is None
        assert inotify_instances() == before + 1
        await watch.aclose()  # type: ignore[attr-defined]
        assert inotify_instances() == before

    asyncio.run(run())


@pytest.mark.parametrize("told", [True, False], ids=["by the kernel", "by polling"])
def test_a_watcher_hears_of_a_change(filesystem: Filesystem, monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    def none_left(**_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    if told:
        monkeypatch.setattr("understudy.documents.filesystem._LOOK", 1000.0)
    else:
        monkeypatch.setattr("understudy.documents.notices.INotify", none_left)

    async def run() -> None:
        watch = filesystem.client().watch(NAME)
        assert await anext(watch) is None
        change = asyncio.create_task(first(filesystem))
        document = await asyncio.wait_for(anext(watch), PATIENT)
        assert document is not None
        await change

    asyncio.run(run())


# the directory


def test_a_good_directory_is_made_and_left_empty(tmp_path: Path) -> None:
    check_directory(tmp_path / "a" / "b")
    check_directory(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize(
    ("magic", "called"),
    [
        (0x6969, "NFS"),
        (0xFF534D42, "CIFS"),
        (0xFE534D42, "SMB2"),
        (0x65735546, "FUSE"),
        (0x01021997, "9p"),
        (0x5346414F, "AFS"),
        (0x00C36400, "Ceph"),
        (0x0BD00BD0, "Lustre"),
    ],
)
def test_a_network_filesystem_is_refused_by_name_and_nothing_is_made_there(
    tmp_path: Path, magic: int, called: str
) -> None:
    with pytest.raises(SettingsError, match=called) as caught:
        check_directory(tmp_path / "ha", kind=lambda _: magic)
    assert str(tmp_path / "ha") in str(caught.value)
    assert not (tmp_path / "ha").exists()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="Not a directory"):
        check_directory(tmp_path / "file" / "ha")
    with pytest.raises(SettingsError, match="cannot be used"):
        check_directory(Path("/proc/understudy"))


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be used"):
        check_directory(Path("/proc/self"))
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be used"):
        check_directory(tmp_path / "file")


def test_a_lock_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"flock\(2\)"):
        check_directory(tmp_path, lock=lambda descriptor, operation: None)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_not_there_is_refused(tmp_path: Path) -> None:
    def no_lock(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    with pytest.raises(SettingsError, match="No locks available"):
        check_directory(tmp_path, lock=no_lock)


def test_a_name_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    def rename(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())

    with pytest.raises(SettingsError, match=r"link\(2\)"):
        check_directory(tmp_path, link=rename)
    assert list(tmp_path.iterdir()) == []


def test_the_kind_of_a_filesystem_is_asked_of_the_kernel() -> None:
    assert filesystem_type(Path("/proc")) == 0x9FA0
    with pytest.raises(OSError, match="No such file"):
        filesystem_type(Path("/proc/understudy"))
