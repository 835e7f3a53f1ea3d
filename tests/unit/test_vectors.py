"""The formats that Python and the JVM share, by the vectors that the JVM's tests read as well (``tests/vectors``)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from understudy.clock import Instant
from understudy.documents import codec
from understudy.errors import DocumentUnreadable
from understudy.fencing.claim import local_root_claim, why_refused
from understudy.fencing.counters import CountersPage
from understudy.fencing.gate import GateReader
from understudy.protocol import activity, claim, counters, gate
from understudy.protocol.activity import Slot
from understudy.protocol.claim import Claim
from understudy.protocol.counters import Commit, Counts
from understudy.protocol.gate import State, View
from understudy.protocol.strict_json import parse
from understudy.protocol.token import Token

Vector = dict[str, Any]
VECTORS = Path(__file__).parents[1] / "vectors"
PAGE = 4096


def vectors(file: str, *, valid: bool | None = None) -> list[Any]:
    found = json.loads((VECTORS / file).read_text(encoding="utf-8"))
    return [pytest.param(each, id=each["name"]) for each in found if valid in {None, each.get("valid")}]


def page(vector: Vector) -> bytes:
    """The content of the file: the bytes given, and zeros."""
    return bytes.fromhex(vector["hex"]).ljust(vector.get("size", PAGE), b"\0")


def test_every_vector_says_why_and_has_its_own_name() -> None:
    for file in ("gate.json", "counters.json", "activity.json", "claim.json"):
        found = json.loads((VECTORS / file).read_text(encoding="utf-8"))
        assert all(each["why"] for each in found)
        assert len({each["name"] for each in found}) == len(found)
        assert {each["valid"] for each in found} == {True, False}


# the gate


def view(vector: Vector) -> View:
    close, kill, park = (Instant(*vector[deadline]) for deadline in ("close", "kill", "park"))
    return View(State[vector["state"].upper()], Token.from_int(vector["token"]), close, kill, park)


@pytest.mark.parametrize("vector", vectors("gate.json", valid=True))
def test_a_gate_is_written_and_read_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    raw = page(vector)
    assert gate.encode(view(vector), vector["sequence"]).ljust(PAGE, b"\0") == raw
    assert gate.decode(raw[: gate.SIZE]) == view(vector)
    (tmp_path / "gate").write_bytes(raw)
    assert GateReader(tmp_path / "gate").read() == view(vector)


@pytest.mark.parametrize("vector", vectors("gate.json", valid=True))
def test_what_a_gate_means_at_a_moment_is_what_the_vector_says(vector: Vector) -> None:
    shown = view(vector)
    for at in vector.get("at", ()):
        now = Instant(at["boottime"], at["monotonic"])
        assert shown.standing(now) is State[at["state"].upper()]
        assert shown.kill_due(now, busy=True) == at["kill_due"]
        assert shown.kill_due(now, busy=False) == at["park_due"]


@pytest.mark.parametrize("vector", vectors("gate.json", valid=False))
def test_an_invalid_gate_reads_as_closed_or_is_not_mapped(vector: Vector, tmp_path: Path) -> None:
    (tmp_path / "gate").write_bytes(page(vector))
    if "size" in vector:
        with pytest.raises(ValueError, match="length"):
            GateReader(tmp_path / "gate")
    else:
        assert gate.decode(page(vector)) is None
        assert GateReader(tmp_path / "gate").read() is None


@pytest.mark.parametrize("length", [0, 1, 16, 75, 79])
def test_a_gate_that_is_cut_short_is_none(length: int) -> None:
    assert gate.decode(gate.encode(View(State.OPEN, Token(7, 2)), 2)[:length]) is None


# the counters


def counts(vector: Vector) -> Counts:
    last, first = vector["last"], vector["first"]
    plain = Counts(vector["accepted"], vector["refused"], vector["unknown"], vector["commits"])
    if last is None:
        return plain
    return replace(
        plain,
        committed_at=last["at_ms"] / 1000,
        committed_batch=last["batch"],
        committed_token=last["token"],
        first=Commit(first["token"], first["root"], first["batch"]),
    )


@pytest.mark.parametrize("vector", vectors("counters.json", valid=True))
def test_counters_are_written_and_read_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    raw = page(vector)
    assert counters.encode(counts(vector), vector["sequence"]) == raw
    assert counters.decode(raw) == counts(vector)
    (tmp_path / "counters").write_bytes(raw)
    assert CountersPage(tmp_path / "counters").read() == counts(vector)


@pytest.mark.parametrize("vector", vectors("counters.json", valid=False))
def test_invalid_counters_are_as_they_were_read_before_or_are_not_mapped(vector: Vector, tmp_path: Path) -> None:
    path = tmp_path / "counters"
    if "size" in vector:
        path.write_bytes(page(vector))
        with pytest.raises(ValueError, match="length"):
            CountersPage(path)
        return
    assert counters.decode(page(vector)) is None
    before = Counts(accepted=5)
    path.write_bytes(counters.encode(before))
    reader = CountersPage(path)
    assert reader.read() == before
    path.write_bytes(page(vector))
    assert reader.read() == before


def test_a_root_that_does_not_fit_is_cut_before_a_character() -> None:
    long = "file:/" + "a" * 3981
    written = counters.encode(Counts(committed_at=1.0, first=Commit(1, long + "étc", 0)))
    read = counters.decode(written)
    assert read is not None
    assert read.first == Commit(1, long, 0)


# the activity


@pytest.mark.parametrize("vector", vectors("activity.json", valid=True))
def test_activity_is_written_and_read_as_the_vector_says(vector: Vector) -> None:
    slots = {each["at"]: Slot(each["pid"], each["started"], each["count"]) for each in vector["slots"]}
    written = bytearray(PAGE)
    activity.put_shared(written, vector["shared"])
    for at, slot in slots.items():
        activity.put_slot(written, at, slot)
    assert bytes(written) == page(vector)
    assert activity.shared(page(vector)) == vector["shared"]
    empty = Slot(0, 0, 0)
    assert {at: found for at in activity.SLOTS if (found := activity.slot(page(vector), at)) != empty} == slots
    alive = {each["pid"]: each["started"] for each in vector["alive"]}
    assert activity.running(page(vector), alive.get) == vector["running"]


@pytest.mark.parametrize("vector", vectors("activity.json", valid=False))
def test_an_activity_page_that_is_cut_short_is_not_mapped(vector: Vector, tmp_path: Path) -> None:
    from understudy.fencing.activity import Activity

    (tmp_path / "activity").write_bytes(page(vector))
    with pytest.raises(ValueError, match="length"):
        Activity(tmp_path / "activity")


# claims


def content(vector: Vector) -> bytes:
    return bytes.fromhex(vector["hex"]) if "hex" in vector else str(vector["text"]).encode()


def plant(root: Path, data: bytes) -> Path:
    (root / claim.DIRECTORY).mkdir()
    (root / claim.DIRECTORY / f"{claim.FILE}@1").write_bytes(data)
    return root


def of(fields: Vector) -> Claim:
    return Claim(Token.from_int(fields["token"]), fields["holder"], fields["cluster"], fields["job"], fields["lock"])


@pytest.mark.parametrize("vector", vectors("claim.json", valid=True))
def test_a_claim_is_read_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    assert claim.decode(content(vector)) == of(vector)
    assert local_root_claim(plant(tmp_path, content(vector))) == of(vector)
    body = parse(content(vector))
    assert isinstance(body, dict)
    assert of(vector).to_body().items() <= body.items()
    assert (codec.canonical(of(vector).to_body()) == codec.canonical(body)) or not vector["written"]


@pytest.mark.parametrize("vector", vectors("claim.json", valid=False))
def test_an_invalid_claim_is_unreadable_and_never_none(vector: Vector, tmp_path: Path) -> None:
    with pytest.raises(DocumentUnreadable):
        claim.decode(content(vector))
    with pytest.raises(DocumentUnreadable, match="claim@1"):
        local_root_claim(plant(tmp_path, content(vector)))


@pytest.mark.parametrize("vector", vectors("claim_order.json"))
def test_a_claim_follows_another_or_is_refused_as_the_vector_says(vector: Vector) -> None:
    assert why_refused(of(vector["own"]), of(vector["standing"]), vector.get("former", {})) == vector["refused"]
