"""A batch whose sink asks no gate keeps the driver busy: its tasks write on with a closed gate, so it is never parked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.doubles.pages import CLOSED, OPEN, later, token
from tests.spark.fence_env import EXISTS, Driver, driver, refusal
from tests.spark.test_fence_halt import alive, gone, stays
from understudy.clock import instant

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("ungated")) as made:
        made.gate.write(OPEN, token(1))
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    """Nothing is in flight before a test, nor after it."""
    assert activity(shared) == 0
    yield shared
    assert activity(shared) == 0


def activity(one: Driver) -> int:
    return int(one.state()["activity"])


def in_flight(one: Driver, root: Path) -> int:
    (found,) = [each["in_flight"] for each in one.state()["roots"] if each["root"] == str(root)]
    return int(found)


def until(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def ungated(one: Driver, root: Path, *, always: bool = False) -> None:
    one.claim(root)
    one.jvm.dev.understudy.fence.UngatedSinks.count(str(root), one.conf, always)


def test_it_counts_from_its_offsets_to_its_commit_and_not_in_between(one: Driver, tmp_path: Path) -> None:
    ungated(one, tmp_path)
    until(lambda: activity(one) == 0)  # looked for what a predecessor left, and found nothing
    for batch in ("0", "1"):
        one.write(tmp_path / "offsets" / batch)
        assert activity(one) == 1
        one.write(tmp_path / "commits" / batch)
        assert activity(one) == 0


def test_one_whose_sink_is_gated_counts_for_nothing(one: Driver, tmp_path: Path) -> None:
    one.claim(tmp_path)
    one.write(tmp_path / "offsets" / "0")
    assert activity(one) == 0
    one.write(tmp_path / "commits" / "0")


def test_one_that_a_predecessor_left_behind_counts_until_it_is_committed(one: Driver, tmp_path: Path) -> None:
    """It is run again from its offsets, which are not written again."""
    for file in ("offsets/0", "offsets/1", "commits/0"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("v1\n{}")
    ungated(one, tmp_path)
    assert activity(one) == 1
    until(lambda: [each["in_flight"] for each in one.state()["roots"] if each["root"] == str(tmp_path)] == [1])
    assert activity(one) == 1
    one.write(tmp_path / "commits" / "1")
    assert activity(one) == 0


def test_offsets_that_were_never_published_are_no_batch(one: Driver, tmp_path: Path) -> None:
    ungated(one, tmp_path)
    until(lambda: activity(one) == 0)
    stream = one.open(tmp_path / "offsets" / "0")
    assert activity(one) == 1
    stream.cancel()
    assert activity(one) == 0


def test_one_whose_offsets_a_predecessor_wrote_late_counts_until_it_is_committed(one: Driver, tmp_path: Path) -> None:
    """Its query is begun again and runs it from those offsets: they are not written, and nothing is claimed."""
    ungated(one, tmp_path)
    until(lambda: activity(one) == 0)
    stream = one.open(tmp_path / "offsets" / "0")
    (tmp_path / "offsets" / "0").write_text("v1\n{}")
    with pytest.raises(Py4JJavaError) as error:
        stream.close()
    assert refusal(error.value) == EXISTS
    until(lambda: in_flight(one, tmp_path) == 0)
    assert activity(one) == 1
    one.write(tmp_path / "commits" / "0")
    assert activity(one) == 0


def test_one_whose_commit_a_predecessor_wrote_late_counts_no_longer(one: Driver, tmp_path: Path) -> None:
    ungated(one, tmp_path)
    one.write(tmp_path / "offsets" / "0")
    stream = one.open(tmp_path / "commits" / "0")
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    with pytest.raises(Py4JJavaError) as error:
        stream.close()
    assert refusal(error.value) == EXISTS
    until(lambda: activity(one) == 0)


def test_one_that_began_counts_although_its_root_is_claimed_once_more(one: Driver, tmp_path: Path) -> None:
    """The token was raised between the beginning of a batch and its offsets, so a look finds nothing yet."""
    ungated(one, tmp_path)
    until(lambda: activity(one) == 0)
    stream = one.open(tmp_path / "offsets" / "0")
    one.gate.write(OPEN, token(1, 1))
    assert one.claim(tmp_path)["outcome"] == "claimed"
    assert in_flight(one, tmp_path) == 0
    stream.close()
    assert activity(one) == 1
    one.write(tmp_path / "commits" / "0")


def test_every_root_counts_for_itself(one: Driver, tmp_path: Path) -> None:
    for name in ("a", "b"):
        ungated(one, tmp_path / name)
    until(lambda: activity(one) == 0)
    one.write(tmp_path / "a" / "offsets" / "0")
    one.write(tmp_path / "b" / "offsets" / "7")
    assert activity(one) == 2
    one.write(tmp_path / "a" / "commits" / "0")
    assert activity(one) == 1
    one.write(tmp_path / "b" / "commits" / "7")


def test_a_query_that_has_failed_counts_until_it_runs_again_or_is_forgotten(one: Driver, tmp_path: Path) -> None:
    for always in (False, True):
        root = tmp_path / str(always)
        ungated(one, root, always=always)
        one.write(root / "offsets" / "0")
        assert activity(one) == 1
        one.fence.forget(str(root), one.conf)
        assert activity(one) == 0


@pytest.mark.parametrize("runs", [True, False], ids=["in flight", "committed"])
def test_a_driver_with_one_is_not_parked_and_without_is(tmp_path: Path, runs: bool) -> None:
    with driver(tmp_path) as one:
        one.gate.write(OPEN, token(1))
        ungated(one, tmp_path / "root")
        one.write(tmp_path / "root" / "offsets" / "0")
        if not runs:
            one.write(tmp_path / "root" / "commits" / "0")
        past = instant()
        one.gate.write(CLOSED, token(1), close=past, kill=past, park=later(600))
        assert gone(one) if runs else stays(one)
        if runs:
            assert one.logged(op="halt")[0]["reason"] == "kill-deadline"


def test_a_query_that_writes_its_offsets_last_is_never_parked_and_daemons_of_the_script_end_with_it(
    tmp_path: Path,
) -> None:
    """The daemon has left the session, and lost its parent: what tells whose it is stands in its environment."""
    script = "import os, time; os.setsid(); os.fork() and os._exit(0); "
    script += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with driver(tmp_path) as one:
        daemon = one.jvm.java.lang.ProcessBuilder([sys.executable, "-c", script])
        daemon.environment().put("UNDERSTUDY_HOLDER", one.holder)
        daemon.start().waitFor()
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        pid = int((tmp_path / "pid").read_text())
        one.gate.write(OPEN, token(1))
        ungated(one, tmp_path / "root", always=True)
        assert activity(one) == 1
        past = instant()
        assert os.getsid(pid) != os.getsid(one.pid)
        one.gate.write(CLOSED, token(1), close=past, kill=past, park=later(600))
        assert gone(one)
        until(lambda: not alive(pid))
