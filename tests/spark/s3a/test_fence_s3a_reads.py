"""What the fence reads on ``s3a://``: few requests, and nothing that is not so any more."""

from __future__ import annotations

import json
import shutil
import threading
from typing import Any
from urllib.parse import unquote

import pytest
from py4j.protocol import Py4JJavaError

from testkit import s3
from tests.spark.fence_env import EXISTS, Driver
from tests.spark.s3a_driver import closes, names

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def content(one: Driver, manager: Any, path: str) -> bytes:
    stream = manager.open(one.path(path))
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def asked(one: Driver, since: int, ending: str) -> list[str]:
    """The reads of one object that reached the server, by verb."""
    lines = [line.split(" ") for line in one.extra["proxy"].seen[since:]]
    return [verb for verb, path, *_ in lines if path.split("?")[0].endswith(ending) and verb in {"GET", "HEAD"}]


def test_an_entry_of_a_log_is_fetched_once_for_all_that_ask_for_it(one: Driver, root: str) -> None:
    """A takeover reads each entry several times, and what its rehearsals have read already is not fetched again."""
    path = f"{root}/offsets/0"
    one.write(path, b"entry")
    since = len(one.extra["proxy"].seen)
    first, second = one.manager(f"{root}/offsets"), one.manager(f"{root}/offsets")
    assert names(one, first, f"{root}/offsets") == ["0"]
    for _ in range(3):
        assert first.exists(one.path(path))
        assert content(one, first, path) == b"entry"
    assert asked(one, since, "/offsets/0") == ["GET"]
    assert names(one, second, f"{root}/offsets") == ["0"]
    assert content(one, second, path) == b"entry"
    assert asked(one, since, "/offsets/0") == ["GET"]


def test_a_log_shows_what_this_process_has_written_and_deleted_at_once(one: Driver, root: str) -> None:
    log, offsets = one.manager(f"{root}/offsets"), f"{root}/offsets"
    for batch in range(3):
        out = log.createAtomic(one.path(f"{offsets}/{batch}"), False)
        out.write(bytearray(b"%d" % batch))
        out.close()
        assert names(one, log, offsets) == [str(each) for each in range(batch + 1)]
        assert not log.exists(one.path(f"{offsets}/{batch + 1}"))
    log.delete(one.path(f"{offsets}/0"))
    assert names(one, log, offsets) == ["1", "2"]
    assert not log.exists(one.path(f"{offsets}/0"))
    assert log.exists(one.path(f"{offsets}/1"))


def test_a_slot_that_was_taken_unseen_is_a_conflict_and_seen_from_then_on(one: Driver, root: str) -> None:
    log, offsets = one.manager(f"{root}/offsets"), f"{root}/offsets"
    one.write(f"{offsets}/0")
    assert names(one, log, offsets) == ["0"]
    one.write(f"{offsets}/1", b"another's")  # another manager's: this log has not been told
    out = log.createAtomic(one.path(f"{offsets}/1"), False)
    assert closes(out) == EXISTS
    assert names(one, log, offsets) == ["0", "1"]
    assert content(one, log, f"{offsets}/1") == b"another's"


@pytest.mark.parametrize("size", [10, 300_000])
def test_state_that_was_written_anew_is_read_anew(one: Driver, root: str, size: int) -> None:
    """A batch that runs again writes the same names with other bytes: nothing remembered of the first may be shown."""
    state = f"{root}/state/0/0"
    manager = one.manager(state)
    for attempt in (b"1", b"2", b"3"):
        one.write(f"{state}/1.delta", attempt * size, overwrite=True)
        if attempt == b"2":
            assert names(one, manager, state) == ["1.delta"]
            one.write(f"{state}/1.delta", b"x" * size, overwrite=True)  # between list and read
            assert content(one, manager, f"{state}/1.delta") == b"x" * size
            one.write(f"{state}/1.delta", attempt * size, overwrite=True)
            assert content(one, manager, f"{state}/1.delta") == attempt * size  # and not what was read in its place
        else:
            assert content(one, manager, f"{state}/1.delta") == attempt * size


def test_what_is_not_there_is_looked_for_once(one: Driver, root: str) -> None:
    since = len(one.extra["proxy"].seen)
    with pytest.raises(Py4JJavaError):
        content(one, one.manager(f"{root}/state/0/0"), f"{root}/state/0/0/9.delta")
    assert asked(one, since, "/9.delta") == ["HEAD"]


def test_what_describes_the_state_is_looked_for_once_in_the_life_of_the_jvm(one: Driver, root: str) -> None:
    """Spark does so some thirty times when a stateful query starts. Its state itself comes and goes."""
    schema, delta = f"{root}/state/0/0/_metadata/schema", f"{root}/state/0/0/1.delta"
    looked = [schema, f"{root}/state/0/0/_metadata", f"{root}/state"]
    assert not any(one.manager(f"{root}/state").exists(one.path(each)) for each in looked)
    for each in (schema, delta):
        one.write(each)
    assert all(one.manager(f"{root}/state").exists(one.path(each)) for each in [*looked, delta])
    since = len(one.extra["proxy"].seen)
    another = one.manager(f"{root}/state")
    assert all(another.exists(one.path(each)) for each in looked)
    assert len(one.extra["proxy"].seen) == since
    assert another.exists(one.path(delta))
    assert len(one.extra["proxy"].seen) > since

    another.delete(one.path(f"{root}/state/0"))
    assert not any(one.manager(f"{root}/state").exists(one.path(each)) for each in (schema, delta))


def test_a_description_is_fetched_once_for_all_that_read_it_at_a_start_and_again_once_it_was_replaced(
    one: Driver, root: str
) -> None:
    schema = f"{root}/state/0/0/_metadata/schema"
    one.write(schema, b"first")
    since = len(one.extra["proxy"].seen)
    for _ in range(3):
        assert content(one, one.manager(f"{root}/state"), schema) == b"first"
    assert asked(one, since, "/schema") == ["HEAD", "GET"]

    one.manager(f"{root}/state").delete(one.path(schema))
    with pytest.raises(Py4JJavaError):
        content(one, one.manager(f"{root}/state"), schema)
    one.write(schema, b"second")
    assert content(one, one.manager(f"{root}/state"), schema) == b"second"


@pytest.mark.parametrize("claimed", [True, False])
def test_a_checkpoint_that_a_script_has_removed_is_not_remembered(one: Driver, root: str, claimed: bool) -> None:
    """With Hadoop's own client or another one, so that the fence sees nothing of it."""
    schema = f"{root}/state/0/0/_metadata/schema"
    one.write(schema, b"first")
    assert one.manager(f"{root}/state").exists(one.path(schema))
    shutil.rmtree(one.extra["data"] / root.removeprefix(f"s3a://{s3.BUCKET}/"))
    if claimed:
        one.claim(root)
    else:
        with pytest.raises(Py4JJavaError):
            content(one, one.manager(f"{root}/state"), schema)
    assert not one.manager(f"{root}/state").exists(one.path(schema))


def test_a_directory_of_state_that_a_rehearsal_has_listed_is_not_made_again(one: Driver, root: str) -> None:
    state = f"{root}/state/0/0"
    one.write(f"{state}/1.delta")
    reads = one.jvm.dev.understudy.fence.CachingCheckpointFileSystem.of(one.path(state), one.conf)
    reads.listStatus(one.path(state))
    since = len(one.extra["proxy"].seen)
    one.manager(state).mkdirs(one.path(state))
    assert len(one.extra["proxy"].seen) == since

    one.manager(state).delete(one.path(state))
    one.manager(state).mkdirs(one.path(state))
    assert names(one, one.manager(state), state) == []


def test_the_newest_entries_of_a_log_are_fetched_at_once_when_a_query_first_lists_it(one: Driver, root: str) -> None:
    log = f"{root}/sources/0"
    written = {name: f"{root} {name}".encode() for name in ["8", "9.compact", "10", "11"]}
    for name, entry in written.items():
        one.write(f"{log}/{name}", entry)
    since, proxy = len(one.extra["proxy"].seen), one.extra["proxy"]
    waiting = threading.Barrier(3, timeout=30)

    def together(line: str) -> str:
        if any(f"/sources/0/{name} " in line for name in written):
            waiting.wait()  # until all three are under way
        return "pass"

    proxy.rule = together
    manager = one.manager(log)
    names(one, manager, log)
    for name in ["9.compact", "10", "11"]:
        assert content(one, manager, f"{log}/{name}") == written[name]
    assert not waiting.broken
    proxy.rule = lambda line: "pass"
    assert [asked(one, since, f"/sources/0/{name}") for name in written] == [[], ["GET"], ["GET"], ["GET"]]


def refuse_once(one: Driver, part: str, status: str) -> threading.Event:
    """The first request with ``part`` in its first line is answered with ``status``; the event tells that it was."""
    refused = threading.Event()

    def rule(line: str) -> str:
        if part not in line or refused.is_set():
            return "pass"
        refused.set()
        return status

    one.extra["proxy"].rule = rule
    return refused


def test_an_entry_that_could_not_be_fetched_ahead_is_asked_for_when_it_is_read(one: Driver, root: str) -> None:
    log = f"{root}/sources/0"
    one.write(f"{log}/0", b"entry")
    manager = one.manager(log)
    refused = refuse_once(one, "/sources/0/0 ", "404")
    names(one, manager, log)
    assert refused.wait(30)
    assert content(one, manager, f"{log}/0") == b"entry"


def begun(one: Driver, root: str) -> dict[str, bytes]:
    """A checkpoint with a batch, as a new leader claims it; returned when all that a start reads has been asked for and answered."""
    files = ("metadata", "offsets/0", "commits/0", "sources/0/0", "state/0/_metadata/metadata", "state/0/0/1.delta")
    written = {name: f"{root} {name}".encode() for name in files}
    for name, data in written.items():
        one.write(f"{root}/{name}", data)
    proxy = one.extra["proxy"]
    first, last = threading.Barrier(5, timeout=30), threading.Barrier(3, timeout=30)

    def together(line: str) -> str:
        """Lists come at once, and those of what they show at once after them."""
        below = unquote(line).partition(f"{root.rsplit('/', 1)[1]}/")[2].partition(" ")[0].partition("&")[0]
        if "prefix=" in line and below in {"", "offsets/", "commits/", "sources/", "state/"}:
            first.wait()
        elif "prefix=" in line and below in {"sources/0/", "state/0/_metadata/"}:
            last.wait()
        return "pass"

    proxy.rule = together
    assert json.loads(one.fence.claim(root, one.conf, -1, 0))["outcome"] == "repeat"
    last.wait()
    assert not first.broken
    proxy.rule = lambda line: "pass"
    return written


def test_what_a_start_reads_is_asked_for_at_once_when_the_checkpoint_has_been_claimed(one: Driver, root: str) -> None:
    written = begun(one, root)
    for name, data in written.items():
        if "delta" not in name:  # what a state consists of is not listed: its tasks may be elsewhere
            assert content(one, one.manager(f"{root}/{name}"), f"{root}/{name}") == data
    assert one.manager(root).exists(one.path(root))
    assert names(one, one.manager(f"{root}/state"), f"{root}/state") == ["0"]
    since = len(one.extra["proxy"].seen)
    for log in ("offsets", "commits", "sources/0"):
        assert names(one, one.manager(f"{root}/{log}"), f"{root}/{log}") == ["0"]
    assert not one.manager(f"{root}/state").exists(one.path(f"{root}/state/0/_metadata/v2"))
    assert one.extra["proxy"].seen[since:] == []


def test_what_is_written_after_the_claim_shows_at_once(one: Driver, root: str) -> None:
    begun(one, root)
    one.write(f"{root}/offsets/1")
    assert names(one, one.manager(f"{root}/offsets"), f"{root}/offsets") == ["0", "1"]
    one.write(f"{root}/state/0/_metadata/v2/1", b"new")
    assert one.manager(f"{root}/state").exists(one.path(f"{root}/state/0/_metadata/v2"))
    assert content(one, one.manager(f"{root}/state"), f"{root}/state/0/_metadata/v2/1") == b"new"
    log = f"{root}/sources/0"
    one.manager(log).delete(one.path(f"{log}/0"))
    assert names(one, one.manager(log), log) == []
    assert not one.manager(log).exists(one.path(f"{log}/0"))


def test_a_list_that_failed_is_asked_for_again(one: Driver, root: str) -> None:
    one.write(f"{root}/offsets/0")
    failed = refuse_once(one, "%2Foffsets%2F", "403")
    one.fence.claim(root, one.conf, -1, 0)
    assert failed.wait(30)
    assert names(one, one.manager(f"{root}/offsets"), f"{root}/offsets") == ["0"]


def test_what_is_read_can_be_read_from_any_place(one: Driver, root: str) -> None:
    one.write(f"{root}/offsets/0", b"0123456789")
    stream = one.manager(f"{root}/offsets").open(one.path(f"{root}/offsets/0"))
    stream.seek(7)
    assert (stream.getPos(), stream.read(), stream.available()) == (7, ord("7"), 2)
    stream.seek(0)
    assert bytes(stream.readAllBytes()) == b"0123456789"
    assert stream.read() == -1
    with pytest.raises(Py4JJavaError, match="cannot seek to 11 in 10 bytes"):
        stream.seek(11)
