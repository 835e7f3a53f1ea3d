"""When a standby's script has to run again from the top, and whose turn it is."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.doubles.clocks import Hands
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.driver.stale_snapshot import stale_reason
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.protocol.messages import RehearsalReport
from understudy.supervisor.membership import Membership
from understudy.supervisor.standby_staleness import StandbyStaleness, files_named_by, mounted

AGE = 1000.0
REHEARSED = RehearsalReport("job.py:9", rehearsed=True, how="live", rounds=4, seconds=1.0)
FAILING = RehearsalReport("job.py:9", rehearsed=False, how="", rounds=5, seconds=1.0, reason="no such file")


def freshness(clock: Hands, *submit: str, mounts: tuple[Path, ...] = ()) -> StandbyStaleness:
    return StandbyStaleness(AGE, submit, mounts, clock)


def test_a_script_is_run_again_when_it_has_grown_old_and_that_is_not_urgent() -> None:
    clock = Hands()
    fresh = freshness(clock)
    fresh.note(REHEARSED)
    clock.at += AGE * 0.89
    assert fresh.due() is None
    clock.at += AGE * 0.12
    due = fresh.due()
    assert due is not None
    assert not due.urgent
    fresh.began(due)
    assert fresh.due() is None


def test_ages_of_standbys_that_began_together_differ() -> None:
    def due_at() -> float:
        clock = Hands()
        fresh = freshness(clock)
        while fresh.due() is None:
            clock.at += 1.0
        return clock.at

    assert len({due_at() for _ in range(20)}) > 5


def test_a_rehearsal_that_used_to_work_and_fails_twice_makes_it_due() -> None:
    clock = Hands()
    fresh = freshness(clock)
    fresh.note(REHEARSED)
    clock.at += 60
    fresh.note(FAILING)
    assert fresh.due() is None, "the leader may have gone on meanwhile"
    fresh.note(FAILING)
    assert (due := fresh.due()) is not None
    assert due.urgent
    assert "no such file" in due.reason


def test_a_rehearsal_that_never_worked_is_no_reason() -> None:
    clock = Hands()
    fresh = freshness(clock)
    clock.at += 60
    for _ in range(5):
        fresh.note(FAILING)
    assert fresh.due() is None


def test_what_changes_all_the_time_leaves_twice_as_much_time_each_time() -> None:
    clock = Hands()
    fresh = freshness(clock)
    pauses = []
    for _ in range(8):
        began = clock.at
        fresh.note(
            RehearsalReport("", rehearsed=True, how="live", rounds=1, seconds=1.0, outdated="file:/dim has changed")
        )
        while (due := fresh.due()) is None:
            clock.at += 1.0
        pauses.append(clock.at - began)
        fresh.began(due)
    assert pauses == [30, 60, 120, 240, 480, 960, 1000, 1000]
    fresh.began(None)
    fresh.note(RehearsalReport("", rehearsed=True, how="live", rounds=1, seconds=1.0, outdated="file:/dim has changed"))
    clock.at += 30
    assert fresh.due() is not None, "after a quiet life it is quick again"


def test_a_configuration_file_a_package_or_a_secret_that_changes_makes_it_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, package = tmp_path / "conf", tmp_path / "lib.py"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.x 1\n")
    package.write_text("")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    secret = tmp_path / "secret"
    (secret / "..1").mkdir(parents=True)
    (secret / "..data").symlink_to("..1")
    info = tmp_path / "mountinfo"
    info.write_text(f"36 35 98:0 / {secret} rw - tmpfs tmpfs rw\n37 35 98:0 / {conf} rw - ext4 /dev/sda rw\n")
    assert mounted(info) == (secret / "..data",)

    clock = Hands()
    fresh = freshness(clock, "--py-files", f"{package},s3a://bucket/other.py", mounts=mounted(info))

    def changes(path: Path) -> None:
        clock.at += 2 * AGE / 3
        assert (due := fresh.due()) is not None, path
        assert due.urgent
        assert str(path) in due.reason
        fresh.began(None)

    clock.at += 60
    assert fresh.due() is None
    (conf / "spark-defaults.conf").write_text("spark.x 12\n")
    changes(conf / "spark-defaults.conf")
    package.write_text("#")
    changes(package)
    (secret / "..data").unlink()
    (secret / "..data").symlink_to("..2")
    changes(secret / "..data")
    package.unlink()
    changes(package)


def test_tokens_that_are_replaced_every_hour_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "mountinfo"
    monkeypatch.setattr(Path, "is_symlink", lambda _: True)
    for place in ("/var/run/secrets", "/run/secrets"):
        info.write_text(f"36 35 98:0 / {place}/kubernetes.io/serviceaccount ro - tmpfs tmpfs rw\n")
        assert mounted(info) == ()
    info.write_text("36 35 98:0 / /etc/shop ro - tmpfs tmpfs rw\n")
    assert mounted(info) == (Path("/etc/shop/..data"),)


def test_files_of_options_are_found_where_they_are_local() -> None:
    submit = ["--files", "a.txt#b,hdfs://n/x", "--conf", "spark.jars=file:///j.jar", "--archives=env.tgz"]
    assert list(files_named_by(submit, {})) == [Path("/j.jar"), Path("a.txt"), Path("env.tgz")]


def test_files_that_a_file_of_settings_names_are_found_and_one_that_cannot_be_read_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib.py").touch()
    mine = tmp_path / "my.conf"
    mine.write_text(f"spark.submit.pyFiles file:{tmp_path}/*.py\nspark.files a.txt\n")
    submit = ("--properties-file", str(mine), "--jars", "/j.jar")
    assert list(files_named_by(submit, {})) == [mine, Path("/j.jar"), tmp_path / "lib.py", Path("a.txt")]

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert list(files_named_by(submit, {})) == [mine, Path("/j.jar")]


# --- whose turn it is ------------------------------------------------------------------------------------------------------


def entry(holder: str, *, since: float, rehearsed: bool = True, reason: str = "", role: str = "standby") -> Replica:
    return Replica(
        holder, role, rehearsed, "live", 4, 1.0, "", reason, 1, 7, "host", 9, "boot", 1.0, script_since=since
    )


def this_host() -> Any:
    return SimpleNamespace(holder="m", name="host", address="", alive=SimpleNamespace(inode=1), told_of_deaths=True)


def may(*others: Replica, since: float = 100.0, rehearsed: bool = True, queries: int = 0, urgent: bool = False) -> bool:
    async def ask() -> bool:
        store = ReplicaStore(MemoryDocumentStore(MemoryServer()), "replicas")
        await store.join("job")
        for other in others:
            await store.publish(other, [])
        host = this_host()
        roster = Membership(store, host, lambda: Generation(1, "d", ""), Hands(), Log(), lambda _: False)
        roster._script_since = since
        return await roster.may_begin_again(rehearsed=rehearsed, queries=queries, urgent=urgent)

    return asyncio.run(ask())


LEADER = entry("l", since=1.0, role="leader", rehearsed=False)


def test_the_oldest_of_several_rehearsed_standbys_goes_first() -> None:
    assert may(LEADER, entry("z", since=200.0))
    assert not may(LEADER, entry("z", since=50.0))
    assert not may(LEADER, entry("a", since=100.0)), "of the same age, one of the two"
    assert may(LEADER, entry("z", since=100.0))


def test_nobody_goes_while_another_one_has_not_come_back() -> None:
    back = entry("z", since=200.0, rehearsed=False)
    assert not may(LEADER, back)
    assert not may(LEADER, back, urgent=True)


def test_the_last_rehearsed_one_stays_however_old_and_goes_when_it_is_urgent() -> None:
    assert not may(LEADER)
    assert may(LEADER, urgent=True)
    failing = entry("z", since=200.0, rehearsed=False, reason="cannot be rehearsed")
    assert not may(LEADER, failing)
    assert may(LEADER, failing, rehearsed=False), "no loss: it is not rehearsed either"


def test_the_only_one_that_knows_all_queries_stays_and_a_leader_names_it_its_successor() -> None:
    lacks, knows = replace(entry("z", since=200.0), queries=1), replace(entry("y", since=200.0), queries=4)
    assert not may(LEADER, lacks, queries=4)
    assert may(LEADER, lacks, knows, queries=4)
    assert may(LEADER, lacks, queries=1)

    async def ask() -> tuple[str | None, int]:
        store = ReplicaStore(MemoryDocumentStore(MemoryServer()), "replicas")
        await store.join("job")
        for each in (replace(lacks, rounds=32), knows, replace(LEADER, queries=4)):
            await store.publish(each, [])
        host = this_host()
        roster = Membership(store, host, lambda: Generation(1, "d", ""), Hands(), Log(), lambda _: False)
        return await roster.successor(), await roster.running()

    assert asyncio.run(ask()) == ("y", 4)


def test_nobody_goes_while_the_others_cannot_be_seen() -> None:
    host = this_host()
    store = MemoryDocumentStore(MemoryServer())
    store.reachable = False
    roster = Membership(
        ReplicaStore(store, "replicas"), host, lambda: Generation(1, "d", ""), Hands(), Log(), lambda _: False
    )
    assert not asyncio.run(roster.may_begin_again(rehearsed=False, urgent=True))


def test_why_a_standing_cannot_be_told_is_said_once_until_it_can() -> None:
    host = this_host()
    store, lines = MemoryDocumentStore(MemoryServer()), io.StringIO()

    async def tell() -> None:
        documents = ReplicaStore(store, "replicas")
        await documents.join("job")
        log = Log(stream=lines)
        roster = Membership(documents, host, lambda: Generation(1, "d", ""), Hands(), log, lambda _: False)
        for held, reachable in (("a", False), ("b", False), ("c", True), ("d", False)):
            store.reachable = reachable
            await roster.publish(RehearsalReport(held, True, "live", 1, 1.0, ""), 1.0, leads=False)

    asyncio.run(tell())
    assert lines.getvalue().count("unpublished: ") == 2


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file", "a file or table is missing"),
        ("[PATH_NOT_FOUND] Path does not exist: s3a://b/x", "a file or table is missing"),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column", "a schema is another"),
        ("software.amazon.awssdk… (Service: S3, Status Code: 403, Request ID: x)", "a credential is refused"),
        ('FATAL: password authentication failed for user "shop"', "a credential is refused"),
        ("[DIVIDE_BY_ZERO] Division by zero.", ""),
        ("Python worker exited unexpectedly (crashed)", ""),
    ],
)
def test_errors_of_an_old_script_are_told_from_errors_of_any_script(text: str, meaning: str) -> None:
    assert stale_reason(RuntimeError(text)) == meaning
