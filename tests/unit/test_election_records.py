"""What a lock document says, and that nothing which cannot be understood is ever taken for free."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.election_builders import as_sent, document, held, leader, released
from understudy.documents import codec
from understudy.documents.model import LeaderRecord
from understudy.election.records import (
    EPOCH_MAX,
    GRANT,
    Attempt,
    Buried,
    Corrupt,
    Free,
    GrantEntry,
    Held,
    Unwritten,
    decode_grant,
    lock_state_of,
    same_record,
)
from understudy.errors import DocumentUnreadable
from understudy.protocol.token import Token

_TEXT = st.text(max_size=20)
_GRANTS = st.builds(
    GrantEntry,
    token_epoch=st.integers(0, EPOCH_MAX),
    holder=st.text(min_size=1, max_size=40),
    nonce=_TEXT,
    released=st.booleans(),
    successor=st.none() | _TEXT,
    generation=_TEXT,
    lock=_TEXT,
    workload=_TEXT,
)


@settings(max_examples=50)
@given(_GRANTS)
def test_a_grant_is_read_as_it_was_written(grant: GrantEntry) -> None:
    assert decode_grant(grant.encode()) == grant


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_no_text_that_is_not_a_grant_makes_a_lock_free(text: str) -> None:
    assert isinstance(lock_state_of(document(text, leader())), Corrupt)
    assert isinstance(lock_state_of(document(text)), Corrupt)


@settings(max_examples=50)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            key: st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.none(), max_size=1)
            for key in ("token_epoch", "holder", "nonce", "released", "successor", "generation", "lock", "workload")
        },
    )
)
def test_a_grant_with_any_field_amiss_is_unreadable_or_whole(body: dict[str, object]) -> None:
    try:
        grant = decode_grant(codec.encode(GRANT, 1, body))
    except DocumentUnreadable:
        return
    assert 0 <= grant.token_epoch <= EPOCH_MAX
    assert grant.holder


def test_a_grant_of_a_newer_version_is_unreadable_rather_than_half_understood() -> None:
    body = {"token_epoch": 7, "holder": "b", "nonce": "n", "released": True, "successor": None}

    assert isinstance(lock_state_of(document(codec.encode(GRANT, 2, body), leader(""))), Corrupt)


def test_a_missing_document_and_one_without_content_are_unwritten() -> None:
    assert lock_state_of(None) == Unwritten(None)
    assert lock_state_of(document()) == Unwritten(document())


def test_a_released_lock_is_free_and_names_its_successor() -> None:
    seen = released("b", 7, successor="c")

    assert lock_state_of(seen) == Free(seen, 7, "c")


def test_a_held_lock_lasts_as_long_as_its_own_record_says() -> None:
    seen = held("b", 7, lease=42.0)

    assert lock_state_of(seen) == Held(seen, 7, "b", 42.0)


def test_a_client_go_holder_without_our_entry_holds_the_lock() -> None:
    seen = document(None, leader("client-go"))

    assert lock_state_of(seen) == Held(seen, 0, "client-go", 15.0)


def test_a_client_go_holder_that_left_our_released_entry_holds_the_lock_and_our_epoch_counts() -> None:
    seen = document(GrantEntry(7, "b", "n", released=True), leader("client-go"))

    assert lock_state_of(seen) == Held(seen, 7, "client-go", 15.0)


def test_a_blanked_holder_over_a_grant_nobody_released_is_still_held() -> None:
    seen = document(GrantEntry(7, "b", "n"), leader("", lease=1.0))

    assert lock_state_of(seen) == Held(seen, 7, "b", 60.0)


def test_a_grant_without_a_leader_record_is_not_free() -> None:
    assert isinstance(lock_state_of(document(GrantEntry(7, "b", "n", released=True))), Corrupt)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_lease_nobody_can_wait_for_is_not_free(seconds: float) -> None:
    assert isinstance(lock_state_of(held(lease=seconds)), Corrupt)


def test_a_tombstone_is_neither_free_nor_held_and_keeps_its_epoch() -> None:
    seen = replace(released("b", 7), labels={"understudy.dev/buried": "true"})

    assert lock_state_of(seen) == Buried(seen, 7)


def _attempt() -> Attempt:
    record = LeaderRecord("a", 15.0, "", "", 4)
    return Attempt("flights-lock", None, GrantEntry(8, "a", ""), record, 1000.0, acquires=True).sealed("n8", "now")


def test_a_write_is_recognised_by_nonce_and_whole_record() -> None:
    sent = _attempt()
    landed = as_sent(sent)

    assert sent.landed_in(landed)
    assert not sent.landed_in(None)
    assert not sent.landed_in(replace(landed, entries={GRANT: replace(sent.grant, nonce="n9").encode()}))
    assert not sent.landed_in(replace(landed, leader=replace(sent.leader, holder="client-go")))
    assert not sent.landed_in(replace(landed, leader=replace(sent.leader, renewed="later")))


def test_sealing_keeps_the_time_a_grant_was_acquired() -> None:
    first = _attempt()
    again = replace(first, grant=replace(first.grant, nonce="")).sealed("n9", "later")

    assert (first.leader.acquired, first.leader.renewed) == ("now", "now")
    assert (again.leader.acquired, again.leader.renewed) == ("now", "later")


def test_a_foreign_label_does_not_make_another_record() -> None:
    one = held()

    assert same_record(one, replace(one, revision="r2", labels={"team": "x"}, entries={**one.entries, "theirs": "1"}))
    assert not same_record(one, held(nonce="m"))
    assert not same_record(one, None)


def test_the_highest_epoch_is_the_highest_a_token_can_carry() -> None:
    assert Token.from_int(int(Token(EPOCH_MAX, 1))) == Token(EPOCH_MAX, 1)
    with pytest.raises(ValueError, match="no such token"):
        Token(EPOCH_MAX + 1, 1)
