"""Values in documents: what is written comes back, and nothing else does."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.documents import codec, record
from understudy.documents.codec import decode, encode
from understudy.documents.model import LeaderRecord
from understudy.documents.record import Record
from understudy.errors import DocumentUnreadable

patient = settings(max_examples=50)

VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.text(), VALUES, max_size=4)
TEXTS = st.dictionaries(st.text(), st.text(), max_size=3)
LEADERS = st.none() | st.builds(
    LeaderRecord, st.text(), st.floats(min_value=0.1, max_value=1e6), st.text(), st.text(), st.integers(0, 2**31)
)


@patient
@given(st.text(min_size=1), st.integers(1, 9), BODIES)
def test_what_is_encoded_is_decoded_equal(kind: str, version: int, body: dict[str, object]) -> None:
    assert decode(kind, encode(kind, version, body), newest=9) == (version, body)


@patient
@given(BODIES)
def test_equal_bodies_are_equal_lines_of_ascii(body: dict[str, object]) -> None:
    text = encode("grant", 1, body)
    assert text == encode("grant", 1, dict(reversed(body.items())))
    assert text.isascii()
    assert "\n" not in text


@patient
@given(BODIES, st.data())
def test_one_changed_character_changes_no_meaning_or_is_noticed(body: dict[str, object], data: st.DataObject) -> None:
    text = encode("grant", 1, body)
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.characters(codec="ascii")) + text[place + 1 :]
    with contextlib.suppress(DocumentUnreadable):
        assert codec.canonical(decode("grant", changed)[1]) == codec.canonical(body)


@patient
@given(st.text() | VALUES.map(json.dumps))
def test_any_text_is_decoded_or_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(DocumentUnreadable):
        decode("grant", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not one of ours"),
        ('{"body":{}}', "not one of ours"),
        (encode("job", 1, {}), "of kind 'job'"),
        (encode("grant", 2, {}), "version 2, newer than 1"),
        (encode("grant", 2, {}).replace('"checksum":"', '"checksum":"f'), "version 2, newer than 1"),
        (encode("grant", 1, {"a": 1}).replace('"a":1', '"a":2'), "checksum"),
        (encode("grant", 1, {"a": 1}).replace('"a":1', '"a":1,"a":1'), "twice"),
        (encode("grant", 1, {"a": 1}).replace('"a":1', '"a":NaN'), "NaN"),
        (encode("grant", 1, {"a": 1}).replace('"a":1', '"a":1e400'), "number"),
        (encode("grant", 1, {}).replace('"version":1', '"version":true'), "not one of ours"),
        (encode("grant", 1, {}).replace('"version":1', '"version":0'), "not one of ours"),
        (encode("grant", 1, {}).replace('"body":{}', '"body":[]'), "not one of ours"),
    ],
)
def test_the_reason_is_told(text: str, reason: str) -> None:
    with pytest.raises(DocumentUnreadable, match=reason) as caught:
        decode("grant", text, where="flights-lock", revision="7-ab")
    assert caught.value.revision == "7-ab"
    assert "flights-lock" in str(caught.value)


def test_a_newer_version_is_read_by_who_knows_it() -> None:
    assert decode("grant", encode("grant", 2, {"a": 1}), newest=2) == (2, {"a": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}, object()])
def test_what_json_cannot_hold_is_a_mistake_of_the_caller(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode("grant", 1, {"a": value})


@patient
@given(st.builds(Record, TEXTS, LEADERS, TEXTS))
def test_a_record_comes_back_equal(written: Record) -> None:
    assert record.load("a", record.dump("a", written), where="", revision="1") == written


@patient
@given(TEXTS, st.dictionaries(st.text(), VALUES, max_size=3))
def test_foreign_fields_are_kept_and_never_taken_for_ours(entries: dict[str, str], foreign: dict[str, object]) -> None:
    written = Record(entries=entries, foreign=foreign)
    read = record.load("a", record.dump("a", written), where="", revision="1")
    assert read.entries == entries
    ours = {"version", "name", "entries", "leader", "labels", "checksum"}
    assert read.foreign == {key: value for key, value in foreign.items() if key not in ours}


@patient
@given(st.builds(Record, TEXTS, LEADERS, TEXTS), st.data())
def test_one_changed_byte_of_a_record_is_noticed(written: Record, data: st.DataObject) -> None:
    stored = record.dump("a", written)
    place = data.draw(st.integers(0, len(stored) - 1))
    changed = stored[:place] + data.draw(st.binary(min_size=1, max_size=1)) + stored[place + 1 :]
    with contextlib.suppress(DocumentUnreadable):
        assert record.load("a", changed, where="", revision="1") == written


def test_a_damaged_name_of_an_empty_field_is_noticed() -> None:
    stored = record.dump("a", Record())
    with pytest.raises(DocumentUnreadable, match="checksum"):
        record.load("a", stored.replace(b'"leader":null', b'" eader":null'), where="", revision="1")


@patient
@given(st.binary())
def test_any_bytes_are_refused_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(DocumentUnreadable):
        record.load("a", data, where="", revision="1")


def stored(**changes: object) -> bytes:
    known: dict[str, object] = {"version": 1, "name": "a", "entries": {}, "leader": None, "labels": {}, **changes}
    return codec.canonical({**known, "checksum": codec.checksum(known)}).encode()


LEADER = {"holder": "h", "lease_seconds": 15.0, "acquired": "", "renewed": "", "transitions": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "b"}, "belongs to 'b'"),
        ({"entries": None}, "not texts"),
        ({"entries": {"a": 1}}, "not texts"),
        ({"labels": ["a"]}, "not texts"),
        ({"leader": []}, "leader record"),
        ({"leader": {"holder": "h"}}, "lacks a field"),
        ({"leader": {**LEADER, "holder": 1}}, "wrong type"),
        ({"leader": {**LEADER, "lease_seconds": "15"}}, "wrong type"),
        ({"leader": {**LEADER, "transitions": 1.5}}, "wrong type"),
    ],
)
def test_a_record_with_an_intact_checksum_and_a_wrong_shape_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(DocumentUnreadable, match=reason):
        record.load("a", stored(**changes), where="", revision="1")


def test_a_leader_record_may_have_fields_nobody_here_knows() -> None:
    read = record.load("a", stored(leader={**LEADER, "strategy": "OldestEmulationVersion"}), where="", revision="1")
    assert read.leader == LeaderRecord("h", 15.0, "", "", 1)
