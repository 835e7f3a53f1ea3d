"""The gate's page: what it means, and that everything doubtful reads as closed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from understudy.clock import NEVER, Instant
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateReader, GateWriter
from understudy.protocol.gate import State, View
from understudy.protocol.token import Token

NOW = Instant(1_000_000_000_000, 500_000_000_000)


def open_view() -> View:
    return View(State.OPEN, Token(7, 2), NOW.plus(3), NOW.plus(4), NOW.plus(600))


def patch(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_what_is_published_is_read(tmp_path: Path) -> None:
    writer = GateWriter(tmp_path / "gate")
    reader = GateReader(tmp_path / "gate")
    assert reader.read() == View(State.STANDBY, Token(0, 0))
    writer.publish(open_view())
    assert reader.read() == open_view()


def test_the_byte_layout_is_the_documented_one(tmp_path: Path) -> None:
    writer = GateWriter(tmp_path / "gate")
    writer.publish(open_view())
    raw = (tmp_path / "gate").read_bytes()
    assert len(raw) == 4096
    assert struct.unpack_from("<IIQQ", raw) == (0x47445355, 1, 4, 7 << 32 | 2)
    assert struct.unpack_from("<qqqqqq", raw, 24) == (
        *(1_003_000_000_000, 503_000_000_000),
        *(1_004_000_000_000, 504_000_000_000),
        *(1_600_000_000_000, 1_100_000_000_000),
    )
    assert struct.unpack_from("<II", raw, 72) == (2, zlib.crc32(raw[:76]))


@pytest.mark.parametrize("clock", ["boottime", "monotonic"])
def test_the_gate_is_shut_when_either_clock_has_passed_the_deadline(clock: str) -> None:
    view = open_view()
    late = (
        Instant(view.close.boottime_ns, NOW.monotonic_ns)
        if clock == "boottime"
        else Instant(NOW.boottime_ns, view.close.monotonic_ns)
    )
    assert view.standing(NOW) is State.OPEN
    assert view.standing(late) is State.CLOSED


@pytest.mark.parametrize("clock", ["boottime", "monotonic"])
def test_user_code_is_killed_at_the_kill_deadline_and_a_parked_driver_only_at_the_park_deadline(clock: str) -> None:
    view = open_view()

    def at(due: Instant) -> Instant:
        return (
            Instant(due.boottime_ns, NOW.monotonic_ns)
            if clock == "boottime"
            else Instant(NOW.boottime_ns, due.monotonic_ns)
        )

    assert not view.kill_due(NOW, busy=True)
    assert view.kill_due(at(view.kill), busy=True)
    assert not view.kill_due(at(view.kill), busy=False)
    assert view.kill_due(at(view.park), busy=False)


def test_a_standby_has_no_deadline() -> None:
    assert not View(State.STANDBY, Token(0, 0)).kill_due(
        Instant(NEVER.boottime_ns - 1, NEVER.monotonic_ns - 1), busy=True
    )


def test_a_page_left_half_written_reads_as_closed(tmp_path: Path) -> None:
    writer = GateWriter(tmp_path / "gate")
    writer.publish(open_view())
    patch(tmp_path / "gate", 8, struct.pack("<Q", 5))  # the writer was frozen after the odd sequence
    assert GateReader(tmp_path / "gate").read() is None


@pytest.mark.parametrize("offset", [0, 4, 16, 24, 32, 40, 48, 56, 64, 72, 76])
def test_a_damaged_page_reads_as_closed(tmp_path: Path, offset: int) -> None:
    writer = GateWriter(tmp_path / "gate")
    writer.publish(open_view())
    byte = (tmp_path / "gate").read_bytes()[offset]
    patch(tmp_path / "gate", offset, bytes([byte ^ 0x10]))
    assert GateReader(tmp_path / "gate").read() is None


def test_a_gate_is_never_reused(tmp_path: Path) -> None:
    GateWriter(tmp_path / "gate")
    with pytest.raises(FileExistsError):
        GateWriter(tmp_path / "gate")


def test_activity_is_seen_by_another_mapping(tmp_path: Path) -> None:
    ours = Activity(tmp_path / "activity", create=True)
    theirs = Activity(tmp_path / "activity")
    ours.set(3)
    assert theirs.running == 3


def test_a_token_grows_by_epoch_then_attempt_and_survives_the_integer() -> None:
    tokens = [Token(1, 1), Token(1, 2), Token(2, 1), Token(2, (1 << 32) - 1), Token(3, 0)]
    assert sorted(tokens, key=int) == tokens
    assert [Token.from_int(int(token)) for token in tokens] == tokens
    assert all(0 <= int(token) < 1 << 63 for token in tokens)
    with pytest.raises(ValueError, match="no such token"):
        Token(1 << 31, 0)


@pytest.mark.parametrize("state", [State.STANDBY, State.OPEN, State.CLOSED])
def test_a_revoked_gate_is_revoked_for_good(tmp_path: Path, state: State) -> None:
    writer = GateWriter(tmp_path / "gate")
    reader = GateReader(tmp_path / "gate")
    writer.publish(View(State.REVOKED, Token(7, 2)))
    with pytest.raises(ValueError, match="revoked for good"):
        writer.publish(View(state, Token(8, 1), NOW.plus(3)))
    writer.publish(View(State.REVOKED, Token(7, 2)))
    assert reader.read() == View(State.REVOKED, Token(7, 2))


def test_who_has_read_revoked_reads_nothing_else(tmp_path: Path) -> None:
    GateWriter(tmp_path / "gate").publish(View(State.REVOKED, Token(7, 2)))
    reader = GateReader(tmp_path / "gate")
    assert reader.read() == View(State.REVOKED, Token(7, 2))
    GateWriter(tmp_path / "second").publish(open_view())
    patch(tmp_path / "gate", 0, (tmp_path / "second").read_bytes())
    assert reader.read() == View(State.REVOKED, Token(7, 2))
    assert GateReader(tmp_path / "gate").read() == open_view()
