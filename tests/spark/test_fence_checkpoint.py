"""The checkpoint file manager on local disks: exclusive publishing, and a frozen leader that thaws too late."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from testkit import kills
from tests.doubles.pages import OPEN, STANDBY, later, token
from tests.spark.fence_env import EXISTS, LOST, Driver, driver, refusal, seize
from understudy.clock import instant

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("checkpoint")) as made:
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    shared.gate.write(OPEN, token(5, 1))
    shared.fence.resume()
    yield shared
    shared.fence.resume()
    shared.gate.write(STANDBY)


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def test_a_file_appears_whole_at_close_and_is_logged_after_it_landed(one: Driver, tmp_path: Path) -> None:
    file = tmp_path / "offsets" / "0"
    out = one.open(file)
    out.write(bytearray(b"v1\n"))
    assert not file.exists()
    assert one.logged(path=str(file)) == []
    out.close()
    assert file.read_bytes() == b"v1\n"
    assert names(tmp_path / "offsets") == ["0"]
    (line,) = one.logged(path=str(file))
    assert {name: line[name] for name in ("token", "holder", "op", "outcome", "reason")} == {
        "token": token(5, 1),
        "holder": one.holder,
        "op": "publish",
        "outcome": "accepted",
        "reason": "",
    }
    assert isinstance(line["t"], int)


def test_a_cancelled_file_leaves_nothing(one: Driver, tmp_path: Path) -> None:
    out = one.open(tmp_path / "offsets" / "0")
    out.write(bytearray(b"v1\n"))
    out.cancel()
    out.close()
    assert names(tmp_path / "offsets") == []


def test_a_log_entry_is_never_overwritten(one: Driver, tmp_path: Path) -> None:
    file = tmp_path / "commits" / "0"
    first, second = one.open(file), one.open(file)
    first.write(bytearray(b"first"))
    second.write(bytearray(b"second"))
    first.close()
    with pytest.raises(Py4JJavaError) as error:
        second.close()
    assert refusal(error.value) == EXISTS
    assert file.read_bytes() == b"first"
    assert names(file.parent) == ["0"]
    assert [line["outcome"] for line in one.logged(path=str(file))] == ["accepted", "refused"]


def test_two_jvms_and_many_threads_racing_for_one_entry_leave_one_winner(one: Driver, tmp_path: Path) -> None:
    # the same (token, holder) for both, so that nothing but the exclusive create stands between them
    with driver(tmp_path / "other", holder=one.holder) as other:
        other.gate.write(OPEN, token(5, 1))
        for each in (one, other):
            each.claim(tmp_path)  # which takes away what the other has not published
        for batch in range(20):
            file = tmp_path / "offsets" / str(batch)
            streams = [each.open(file) for each in (one, other) for _ in range(4)]
            for number, out in enumerate(streams):
                out.write(bytearray(b"%d" % number))
            with ThreadPoolExecutor(8) as pool:
                outcomes = list(pool.map(_closes, streams))
            assert sorted(outcomes) == ["", *[EXISTS] * 7]
            assert file.read_bytes() == b"%d" % outcomes.index("")


def _closes(out: object) -> str:
    try:
        out.close()  # type: ignore[attr-defined]
    except Py4JJavaError as error:
        return refusal(error)
    return ""


def test_state_files_may_be_written_again(one: Driver, tmp_path: Path) -> None:
    file = tmp_path / "state" / "0" / "0" / "1.delta"
    one.write(file, b"first", overwrite=True)
    one.write(file, b"second", overwrite=True)
    assert file.read_bytes() == b"second"
    assert names(file.parent) == ["1.delta"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_leader_frozen_with_a_file_open_cannot_publish_after_a_takeover(
    one: Driver, tmp_path: Path, overwrite: bool
) -> None:
    file = tmp_path / "state" / "0" / "0" / "1.delta"
    out = one.open(file, overwrite=overwrite)
    out.write(bytearray(b"stale"))
    one.freeze()
    seize(tmp_path, token(6))
    if overwrite:
        file.write_bytes(b"the new leader's")
    one.thaw()  # its gate was told nothing: the claim alone must stop it
    with pytest.raises(Py4JJavaError) as error:
        out.close()
    assert refusal(error.value) == LOST
    assert names(file.parent) == (["1.delta"] if overwrite else [])
    assert file.read_bytes() == b"the new leader's" if overwrite else not file.exists()
    (line,) = one.logged(path=str(file))
    assert (line["op"], line["outcome"], line["reason"]) == ("publish", "refused", "higher-claim")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_a_successors_claim_has_taken_away_is_not_published(
    one: Driver, tmp_path: Path, overwrite: bool
) -> None:
    """A leader may have been let through, and frozen just before it published: no question can stop it any more."""
    file = tmp_path / "state" / "0" / "0" / "1.delta"
    out = one.open(file, overwrite=overwrite)
    out.write(bytearray(b"stale"))
    out.flush()
    (written,) = (tmp_path / "_understudy").glob("staging-*/.1.delta.*.tmp")
    assert kills.writes_state(tmp_path, 0), "what the demo looks for before it freezes a leader"
    written.unlink()
    if overwrite:
        file.write_bytes(b"the new leader's")
    with pytest.raises(Py4JJavaError):
        out.close()
    assert file.read_bytes() == b"the new leader's" if overwrite else not file.exists()
    assert one.logged(path=str(file))[-1]["outcome"] == "unknown"


def test_a_claim_of_a_checkpoint_takes_the_predecessors_unpublished_files_away(one: Driver, tmp_path: Path) -> None:
    seize(tmp_path, token(4))
    stale = tmp_path / "_understudy" / "staging-of-another-jvm" / ".1.delta.tmp"
    stale.parent.mkdir()
    stale.write_text("state")
    one.write(tmp_path / "offsets" / "0")
    assert not stale.exists()


def test_a_leader_frozen_past_its_deadline_waits_when_nobody_took_over_and_goes_on_when_reopened(
    one: Driver, tmp_path: Path
) -> None:
    file = tmp_path / "offsets" / "0"
    out = one.open(file)
    one.gate.write(OPEN, token(5, 1), close=later(0.3))
    one.freeze()
    deadline = later(0.4).boottime_ns
    while instant().boottime_ns < deadline:
        time.sleep(0.01)
    one.thaw()
    closing = threading.Thread(target=out.close, daemon=True)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    assert not file.exists()
    one.gate.write(OPEN, token(5, 1), close=later(60))
    closing.join(10)
    assert file.exists()


def test_a_stale_leader_cannot_delete(one: Driver, tmp_path: Path) -> None:
    file = tmp_path / "offsets" / "0"
    one.write(file)
    seize(tmp_path, token(6))
    with pytest.raises(Py4JJavaError) as error:
        one.manager(tmp_path).delete(one.path(file))
    assert refusal(error.value) == LOST
    assert file.exists()
    assert one.logged(op="delete", outcome="refused")[-1]["path"] == str(file)


def test_a_leader_deletes_files_directories_and_what_is_not_there(one: Driver, tmp_path: Path) -> None:
    one.write(tmp_path / "offsets" / "0")
    one.write(tmp_path / "state" / "0" / "0" / "1.delta", overwrite=True)
    (tmp_path / "offsets" / ".0.crc").write_bytes(b"old")
    manager = one.manager(tmp_path)
    manager.delete(one.path(tmp_path / "offsets" / "0"))
    manager.delete(one.path(tmp_path / "offsets" / "0"))
    manager.delete(one.path(tmp_path / "state" / "0"))
    assert names(tmp_path / "offsets") == []
    assert names(tmp_path / "state") == []


def test_new_content_takes_the_old_checksum_away(one: Driver, tmp_path: Path) -> None:
    """Hadoop believes a ``.crc`` file when there is one: a stale one would make a good file unreadable."""
    stock = one.jvm.org.apache.hadoop.fs.FileSystem.get(one.conf)
    file = tmp_path / "state" / "0" / "0" / "1.delta"
    out = stock.create(one.path(file))
    out.write(bytearray(b"by plain spark"))
    out.close()
    assert names(file.parent) == [".1.delta.crc", "1.delta"]
    one.write(file, b"by the fence", overwrite=True)
    assert names(file.parent) == ["1.delta"]
    read = stock.open(one.path(file))
    assert bytes(read.readAllBytes()) == b"by the fence"
    read.close()


def test_listing_hides_checksums_and_says_when_there_is_no_such_directory(one: Driver, tmp_path: Path) -> None:
    one.write(tmp_path / "offsets" / "0", b"12345")
    (tmp_path / "offsets" / ".0.crc").write_bytes(b"old")
    (tmp_path / "offsets" / "sub").mkdir()
    manager = one.manager(tmp_path)
    found = {each.getPath().toString(): each for each in manager.list(one.path(tmp_path / "offsets"))}
    assert sorted(found) == [f"file:{tmp_path}/offsets/0", f"file:{tmp_path}/offsets/sub"]
    assert found[f"file:{tmp_path}/offsets/0"].getLen() == 5
    assert found[f"file:{tmp_path}/offsets/sub"].isDirectory()
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        manager.list(one.path(tmp_path / "missing"))
    assert manager.exists(one.path(f"file://{tmp_path}/offsets/0"))
    assert not manager.exists(one.path(tmp_path / "offsets" / "1"))
    assert manager.isLocal()
    assert manager.createCheckpointDirectory().toString() == f"file:{tmp_path}"
