"""The JVM's reading of the gate: bytes, checksum, both clocks, and what each state means to a writer."""

from __future__ import annotations

import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.doubles.pages import CLOSED, OPEN, REVOKED, STANDBY, later, token
from tests.spark.fence_env import LOST, Driver, driver, refusal, seize
from understudy.clock import NEVER, Instant, instant

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("gate")) as made:
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    yield shared
    shared.gate.write(STANDBY)


def gate_state(one: Driver) -> str:
    return str(one.state()["gate"]["state"])


class Background(threading.Thread):
    """A write that waits: started, looked at, joined."""

    def __init__(self, write: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.write, self.error = write, ""

    def run(self) -> None:
        try:
            self.write()
        except Py4JJavaError as error:
            self.error = refusal(error)


def test_a_page_written_by_the_documented_layout_is_read_field_by_field(one: Driver) -> None:
    one.gate.write(OPEN, token(7, 3), later(60), later(70), later(80))
    seen = one.state()["gate"]
    assert seen == {"readable": True, "state": "open", "token": token(7, 3)}


@pytest.mark.parametrize("offset", [0, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 76])
def test_one_flipped_bit_anywhere_closes_the_gate(one: Driver, offset: int) -> None:
    one.gate.write(OPEN, token(1))
    good = one.gate.path.read_bytes()[:80]
    flip = 2 if offset == 8 else 1  # the sequence stays even: the checksum must notice, not the seqlock
    one.gate.put(bytes([good[offset] ^ flip]), offset)
    assert one.state()["gate"] == {"readable": False, "state": "closed", "token": 0}
    one.gate.put(good)
    assert gate_state(one) == "open"


def test_a_page_being_written_is_closed(one: Driver) -> None:
    one.gate.write(OPEN, token(1))
    data = bytearray(one.gate.page(OPEN, token(1)))
    odd = struct.unpack_from("<Q", data, 8)[0] + 1

    struct.pack_into("<Q", data, 8, odd)
    struct.pack_into("<I", data, 76, zlib.crc32(data[:76]))  # even with a checksum that fits
    one.gate.put(bytes(data))
    assert one.state()["gate"]["readable"] is False
    assert gate_state(one) == "closed"


def test_a_gate_past_its_deadline_on_either_clock_is_closed(one: Driver) -> None:
    now = instant()
    past_boottime = Instant(now.boottime_ns - 1, NEVER.monotonic_ns)
    past_monotonic = Instant(NEVER.boottime_ns, now.monotonic_ns - 1)
    one.gate.write(OPEN, token(1), later(60))
    assert gate_state(one) == "open"
    one.gate.write(OPEN, token(1), past_boottime)
    assert gate_state(one) == "closed"
    one.gate.write(OPEN, token(1), past_monotonic)
    assert gate_state(one) == "closed"


def test_the_boot_time_clock_is_never_behind(one: Driver) -> None:
    for _ in range(50):
        before = instant()
        boottime, monotonic = one.fence.clocks()
        after = instant()
        assert before.boottime_ns < boottime <= after.boottime_ns + 10_000_000
        assert before.monotonic_ns <= monotonic <= after.monotonic_ns


def test_a_standby_waits_without_limit_and_writes_after_the_grant(one: Driver, tmp_path: Path) -> None:
    one.gate.write(STANDBY, park=instant(), kill=instant())
    background = Background(partial(one.write, tmp_path / "offsets" / "0"))
    background.start()
    background.join(0.3)
    assert background.is_alive()
    assert not (tmp_path / "offsets" / "0").exists()
    one.gate.write(OPEN, token(1))
    background.join(10)
    assert background.error == ""
    assert (tmp_path / "offsets" / "0").exists()


def test_a_closed_gate_holds_a_write_until_it_opens_again(one: Driver, tmp_path: Path) -> None:
    one.gate.write(OPEN, token(1))
    out = one.open(tmp_path / "offsets" / "0")
    one.gate.write(CLOSED, token(1))
    closing = threading.Thread(target=out.close, daemon=True)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    assert not (tmp_path / "offsets" / "0").exists()
    one.gate.write(OPEN, token(1))
    closing.join(10)
    assert (tmp_path / "offsets" / "0").exists()


def test_while_the_gate_is_closed_a_higher_claim_ends_the_wait(one: Driver, tmp_path: Path) -> None:
    one.gate.write(OPEN, token(1))
    one.claim(tmp_path)
    one.gate.write(CLOSED, token(1))
    background = Background(partial(one.write, tmp_path / "offsets" / "0"))
    background.start()
    background.join(0.1)
    assert background.is_alive()
    seize(tmp_path, token(2))
    background.join(10)
    assert background.error == LOST
    assert (
        one.logged(op="create", outcome="refused", path=str(tmp_path / "offsets" / "0"))[-1]["reason"] == "higher-claim"
    )


def test_a_revoked_gate_refuses_at_once_and_for_good(tmp_path: Path) -> None:
    with driver(tmp_path) as own:  # its own: a revoked one halts
        own.gate.write(OPEN, token(1))
        out = own.open(tmp_path / "root" / "offsets" / "0")
        own.gate.write(CLOSED, token(1))
        background = Background(out.close)  # it waits already: 200 ms after a revocation there is nothing left to ask
        background.start()
        background.join(0.3)
        own.gate.write(REVOKED, token(1))
        background.join(20)
        assert background.error == LOST
        assert not (tmp_path / "root" / "offsets" / "0").exists()
        assert own.logged(op="publish", outcome="refused")[0]["reason"] == "revoked"
        own.gate.write(OPEN, token(1))  # nothing opens it again for a process that has seen it revoked: this one halts
        own.process.wait(20)
        assert own.logged(op="halt")[0]["reason"] == "revoked"


def test_without_a_gate_a_driver_writes_nothing(tmp_path: Path) -> None:
    with driver(tmp_path, attach=False) as own:
        with pytest.raises(Py4JJavaError) as error:
            own.write(tmp_path / "root" / "offsets" / "0")
        assert refusal(error.value) == LOST
        assert not (tmp_path / "root" / "offsets").exists()


def test_attaching_again_is_a_repeat_with_the_same_arguments_and_an_error_with_others(one: Driver) -> None:
    one.attach()
    with pytest.raises(Py4JJavaError, match="already attached"):
        one.attach(job="another")


def test_a_file_that_is_no_gate_is_not_attached(tmp_path: Path) -> None:
    with driver(tmp_path, attach=False) as own:
        own.gate.put(b"XXXX")
        with pytest.raises(Py4JJavaError, match="is no gate"):
            own.attach()
        own.gate.path.write_bytes(b"short")
        with pytest.raises(Py4JJavaError, match="shorter"):
            own.attach()


def test_a_reader_never_sees_half_a_page(one: Driver) -> None:
    """A writer rewrites token and deadlines together; every view the reader gets has them together."""
    one.gate.write(OPEN, token(1), later(60))  # the reader may be faster than the thread that writes
    stop = threading.Event()

    def rewrite() -> None:
        epoch = 1
        while not stop.is_set():
            epoch += 1
            one.gate.write(OPEN, token(epoch), later(60))

    writer = threading.Thread(target=rewrite, daemon=True)
    writer.start()
    readable: list[dict[str, Any]] = []
    give_up = time.monotonic() + 60
    try:
        while len(readable) < 200:  # while the writer stands still in the middle of a page there is nothing to read
            assert time.monotonic() < give_up, f"the reader saw {len(readable)} pages"
            if (view := one.state()["gate"])["readable"]:
                readable.append(view)
    finally:
        stop.set()
        writer.join()
    assert [view for view in readable if view["state"] != "open" or view["token"] % (1 << 32) != 0] == []
