"""What the core decides while it follows: when a lock may be tried, and what an attempt without an answer means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.election_builders import (
    NAME,
    TIMINGS,
    Lock,
    Replica,
    as_sent,
    document,
    held,
    leader,
    leading,
    ready,
    released,
    together,
)
from understudy.documents.model import Conflict, Document, Unknown, Written
from understudy.election.commands import Granted, Lost, Read, ReadMinEpoch, Write
from understudy.election.following import contends_at
from understudy.election.inputs import Answer, Evidence, Hint, MinEpochRead, Ready, Seen, StopAsked, Tick
from understudy.election.machine import decide
from understudy.election.records import EPOCH_MAX, GrantEntry, Held, lock_state_of, view_grant
from understudy.election.state import Role, State

LEASE, RETRY = TIMINGS.lease, TIMINGS.retry


def following(lock: Lock, holder: str = "a", *, is_ready: bool = True) -> Replica:
    """A replica that has just seen ``lock``, at time 1000."""
    replica = ready(holder, lock)
    return replica.hear(Ready(is_ready))


# --- acquiring and waiting (client-go's cases, by its names, are in test_client_go_cases) --------------------------------


def test_a_new_lock_is_acquired() -> None:
    replica = following(Lock())

    assert replica.epochs == [1]
    assert replica.lock.standing is not None
    assert replica.lock.standing.leader is not None
    assert replica.lock.standing.leader.holder == "a"
    assert replica.lock.standing.leader.transitions == 0
    assert replica.said == ["acquired"]


def test_a_document_without_content_is_acquired_by_compare_and_set() -> None:
    replica = following(Lock(document()))

    assert replica.epochs == [1]
    assert replica.sent[0].seen == document()


def test_an_expired_lock_is_acquired_with_the_next_epoch() -> None:
    replica = following(Lock(held("b", 7))).after(LEASE + 1)

    assert replica.epochs == [8]
    assert replica.lock.standing is not None
    assert replica.lock.standing.leader is not None
    assert replica.lock.standing.leader.transitions == 4


def test_a_lock_is_not_acquired_before_this_replica_has_watched_it_for_a_lease() -> None:
    replica = following(Lock(held("b", 7))).after(LEASE - 0.01)

    assert replica.sent == []
    assert replica.after(0.02).epochs == [8]


def test_a_record_that_looks_old_is_waited_for_all_the_same_for_foreign_clocks_are_not_read() -> None:
    old = document(GrantEntry(7, "b", "n"), leader("b", renewed="1999-12-31T23:59:59.000000Z"))

    assert following(Lock(old)).after(LEASE - 0.01).sent == []


def test_the_wait_is_as_long_as_the_records_own_lease() -> None:
    replica = following(Lock(held("b", 7, lease=40.0))).after(39.9)

    assert replica.sent == []
    assert replica.after(0.2).epochs == [8]


def test_every_renewal_seen_starts_the_wait_again() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock)
    for number in range(10):
        replica.after(LEASE - RETRY)
        lock.put(held("b", 7, nonce=f"n{number}"))
        replica.after(RETRY)

    assert replica.sent == []


def test_a_foreign_label_is_no_renewal() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock).after(LEASE / 2)
    assert lock.standing is not None
    lock.put(replace(lock.standing, labels={"team": "x"}))

    assert replica.after(LEASE / 2 + 0.1).epochs == [8]


def test_whoever_is_beaten_to_it_stands_by_and_says_by_whom() -> None:
    lock = Lock(released("b", 7))
    first, second = following(lock), ready("c", lock)
    second.state, _ = decide(second.state, Seen(lock_state_of(released("b", 7))), second.now)  # the older view
    second.hear(MinEpochRead(0))

    assert (first.epochs, second.epochs) == ([8], [])
    assert second.role() is Role.STANDBY
    assert second.sentence("standing-by") == "a leads with epoch 8"


def test_standing_by_is_said_once_and_not_at_every_renewal() -> None:
    lock = Lock()
    leader_, follower = leading("a", lock), ready("b", lock)
    together([leader_, follower], 1100.0)

    assert follower.said == ["standing-by"]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_standby_reads_once_per_retry_period() -> None:
    replica = following(Lock(held())).after(5 * RETRY)

    assert replica.reads == 6


def test_a_hint_makes_a_standby_read_and_proves_nothing() -> None:
    replica = following(Lock(held("b", 7)))
    replica.hear(Hint(None))  # "it is gone", says a watch that is behind

    assert replica.reads == 2
    assert replica.sent == []


def test_a_hint_of_what_is_known_costs_no_request() -> None:
    assert following(Lock(held("b", 7, revision="r1"))).hear(Hint("r1")).reads == 1


def test_an_outage_of_its_own_starts_the_wait_again() -> None:
    replica = following(Lock(held("b", 7))).after(LEASE - 6)
    replica.cut = True
    replica.after(30)
    replica.cut = False
    replica.after(LEASE - 0.5)

    assert replica.sent == []
    assert replica.after(3).epochs == [8]


def test_one_failed_read_does_not_start_the_wait_again() -> None:
    replica = following(Lock(held("b", 7))).after(5)
    replica.cut = True
    replica.after(RETRY)
    replica.cut = False

    assert replica.until(1000 + LEASE + 0.1).epochs == [8]


def test_a_follower_whose_last_read_failed_does_not_contend() -> None:
    replica = following(Lock(held("b", 7))).after(LEASE - 0.5)
    replica.cut = True
    replica.after(RETRY)

    assert replica.sent == []


def test_a_follower_that_was_frozen_does_not_trust_what_it_saw_before() -> None:
    replica = following(Lock(held("b", 7)))
    replica.frozen = True
    together([replica], 1000 + 10 * LEASE)
    replica.frozen = False
    replica.after(LEASE - 0.1)

    assert replica.sent == []
    assert replica.after(0.2).epochs == [8]


# --- who goes first ---------------------------------------------------------------------------------------------------


def test_the_named_successor_contends_at_once() -> None:
    assert following(Lock(released("b", 7, successor="a"))).epochs == [8]


def test_the_others_wait_one_retry_period_for_the_successor() -> None:
    replica = following(Lock(released("b", 7, successor="c"))).after(RETRY - 0.01)

    assert replica.sent == []
    assert "c goes first" in replica.sentence("waiting")
    assert replica.after(0.02).epochs == [8]


def test_nobody_waits_for_a_successor_that_is_dead() -> None:
    replica = following(Lock(released("b", 7, successor="c"))).hear(Evidence("c"))

    assert replica.epochs == [8]


def test_anyone_ready_contends_at_once_when_nobody_is_named() -> None:
    assert following(Lock(released("b", 7))).epochs == [8]


@pytest.mark.parametrize("lock", [None, released("b", 7), released("b", 7, successor="a")])
def test_an_unready_one_waits_one_retry_period_for_a_free_lock(lock: None) -> None:
    replica = following(Lock(lock), is_ready=False).after(RETRY - 0.01)

    assert replica.sent == []
    assert len(replica.after(0.02).epochs) == 1


def test_an_unready_one_waits_one_retry_period_longer_than_the_lease() -> None:
    replica = following(Lock(held("b", 7)), is_ready=False).after(LEASE + RETRY - 0.01)

    assert replica.sent == []
    assert replica.after(0.02).epochs == [8]


def test_one_that_becomes_ready_need_not_wait_any_longer() -> None:
    replica = following(Lock(released("b", 7)), is_ready=False).after(0.5)

    assert replica.hear(Ready(True)).epochs == [8]


# --- evidence ---------------------------------------------------------------------------------------------------------


def test_evidence_that_the_holder_is_dead_is_acted_on_at_once_and_on_the_revision_that_names_it() -> None:
    replica = following(Lock(held("b", 7, revision="r1"))).hear(Evidence("b"))

    assert replica.epochs == [8]
    assert replica.now == 1000.0
    assert replica.sent[0].seen == held("b", 7, revision="r1")


def test_evidence_needs_no_working_read_for_the_compare_and_set_is_the_proof() -> None:
    replica = following(Lock(held("b", 7))).after(1)
    replica.cut = True
    replica.after(RETRY)
    replica.cut = False

    assert replica.hear(Evidence("b")).epochs == [8]


def test_an_unready_one_leaves_a_dead_holders_lock_to_others_for_one_retry_period() -> None:
    replica = following(Lock(held("b", 7)), is_ready=False).hear(Evidence("b")).after(RETRY - 0.01)

    assert replica.sent == []
    assert replica.after(0.02).epochs == [8]


def test_evidence_of_an_old_holder_deposes_nobody() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock)
    lock.put(held("c", 8, nonce="m"))
    replica.hear(Hint("r100"), Evidence("b"))

    assert replica.after(LEASE - 0.1).sent == []


def test_a_record_that_changed_hands_meanwhile_is_not_taken_on_evidence_about_the_one_before() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock)
    lock.put(held("c", 8, nonce="m"))  # not seen yet
    replica.hear(Evidence("b"))

    assert len(replica.sent) == 1  # on the revision that named b, so it is refused
    assert replica.epochs == []
    assert replica.after(LEASE - 0.1).epochs == []


def test_a_dead_holders_last_renewal_does_not_save_it() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock)
    lock.put(held("b", 7, nonce="m"))  # landed just before it died, not seen yet

    assert replica.hear(Evidence("b")).epochs == [8]
    assert replica.now == 1000.0


def test_evidence_that_arrives_before_the_record_that_names_the_dead_is_remembered() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock).hear(Evidence("c"))
    assert replica.sent == []
    lock.put(held("c", 8, nonce="m"))

    assert replica.after(RETRY).epochs == [9]


def test_evidence_of_ones_own_death_is_ignored() -> None:
    replica = following(Lock(held("a", 7, nonce="theirs"))).hear(Evidence("a")).after(LEASE - 0.1)

    assert replica.sent == []
    assert leading().hear(Evidence("a")).after(5).role() is Role.LEADING


# --- what is not free -------------------------------------------------------------------------------------------------


def test_a_corrupt_lock_is_not_free_and_the_reason_is_said_once() -> None:
    lock = Lock(document("garbage", leader()))
    replica = following(lock).after(20 * LEASE)

    assert replica.sent == []
    assert replica.said == ["refused"]
    assert "not free" in replica.sentence("refused")


def test_a_standby_contends_again_once_the_lock_is_readable() -> None:
    lock = Lock(held("b", 7))
    lock.damage()
    replica = following(lock).after(20 * LEASE)
    lock.put(held("b", 7))

    assert replica.after(LEASE + RETRY + 0.1).epochs == [8]


@pytest.mark.parametrize("standing", [None, document()])
def test_a_missing_or_emptied_lock_is_not_free_once_an_epoch_was_granted_and_is_taken_above_it_after_a_lease(
    standing: Document | None,
) -> None:
    """Its living holder writes it again before; a lock that can never be taken again would end the job for good."""
    replica = ready("a", Lock(standing), min_epoch=7).after(LEASE - 0.1)

    assert replica.sent == []
    assert replica.said.count("waiting") == 1
    assert "epoch 7 was granted before" in replica.sentence("waiting")
    assert replica.after(RETRY).epochs == [8]


def test_a_lock_that_was_seen_with_an_epoch_is_not_new_when_it_is_gone_even_if_nothing_else_knows_one() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock)
    lock.put(None)

    assert replica.after(LEASE - 0.1).sent == []
    assert replica.after(2 * RETRY).epochs == [8]


def test_a_lock_that_is_gone_is_waited_for_as_long_as_its_last_holder_named() -> None:
    lock = Lock(held("b", 7, lease=3 * LEASE))
    replica = following(lock)
    lock.put(None)

    assert replica.after(3 * LEASE - 0.1).sent == []
    assert replica.after(2 * RETRY).epochs == [8]


def test_while_a_missing_lock_cannot_be_read_its_lease_is_not_over() -> None:
    """Its holder may be cut off as we are, and has to get its chance to write it again."""
    lock = Lock(held("b", 7))
    replica = following(lock)
    lock.put(None)
    replica.after(RETRY)
    replica.cut = True
    replica.after(2 * LEASE)
    replica.cut = False

    assert replica.after(LEASE - RETRY).sent == []
    assert replica.after(3 * RETRY).epochs == [8]


def test_a_buried_lock_is_not_free() -> None:
    buried = replace(released("b", 7), labels={"understudy.dev/buried": "true"})
    replica = following(Lock(buried)).after(20 * LEASE)

    assert replica.sent == []
    assert "buried" in replica.sentence("refused")


def test_no_lock_is_acquired_while_the_min_epoch_cannot_be_read() -> None:
    replica = ready("a", Lock(released("b", 7)), min_epoch=None).after(LEASE)

    assert replica.sent == []
    assert replica.said == ["waiting"]
    replica.min_epoch = 3
    assert replica.after(RETRY).epochs == [8]


@pytest.mark.parametrize(("record", "min_epoch", "epoch"), [(7, 0, 8), (2, 2, 3)])
def test_a_new_epoch_is_above_the_record_and_above_the_min_epoch(record: int, min_epoch: int, epoch: int) -> None:
    assert ready("a", Lock(released("b", record)), min_epoch=min_epoch).hear(Tick()).epochs == [epoch]


def test_a_new_epoch_is_above_a_min_epoch_that_the_record_does_not_know_of() -> None:
    assert ready("a", Lock(released("b", 7)), min_epoch=11).after(LEASE + RETRY).epochs == [12]


@pytest.mark.parametrize(
    "restored", [released("b", 7), released("b", 7, successor="a"), held("b", 7), held("b", 7, lease=1.0)]
)
def test_a_restored_locks_release_and_its_holders_death_say_nothing_of_who_leads_now(restored: Document) -> None:
    replica = ready("a", Lock(restored), min_epoch=8).hear(Evidence("b")).after(LEASE - 0.1)

    assert replica.sent == []
    assert "epoch 8 was granted:" in replica.sentence("waiting")
    assert replica.after(0.1 + RETRY).epochs == [9]


def test_a_restored_locks_lease_is_over_only_while_it_can_be_read() -> None:
    replica = ready("a", Lock(released("b", 7)), min_epoch=8).after(1)
    replica.cut = True
    replica.after(3 * LEASE)
    replica.cut = False

    assert replica.after(LEASE - 0.1).sent == []
    assert replica.after(0.1 + 2 * RETRY).epochs == [9]


def test_a_restored_backup_repeats_no_epoch_that_was_seen_here() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock)
    lock.put(released("x", 2))

    assert replica.after(LEASE + 2 * RETRY).epochs == [8]


def test_once_the_data_are_removed_a_missing_lock_is_new() -> None:
    replica = ready("a", Lock(), min_epoch=5).after(LEASE)
    assert replica.sent == []
    replica.min_epoch = 0

    assert replica.after(2 * RETRY).epochs == [1]


def test_an_epoch_that_fits_no_token_is_not_granted() -> None:
    replica = following(Lock(released("b", EPOCH_MAX))).after(LEASE)

    assert replica.sent == []
    assert "no epoch is left" in replica.sentence("refused")


def test_a_server_that_refuses_a_standby_without_a_reason_is_not_asked_again_at_once() -> None:
    free = released("b", 7)
    state, _ = decide(ready().state, Seen(lock_state_of(free)), 1000.0)
    state, (write,) = decide(state, MinEpochRead(0), 1000.0)
    assert isinstance(write, Write)
    state, actions = decide(state, Answer(write.attempt.sealed("n", "t"), Conflict(free)), 1000.1)

    assert not any(isinstance(action, ReadMinEpoch) for action in actions)
    state, actions = decide(state, Tick(), 1000.0 + RETRY)
    assert actions == (ReadMinEpoch(),)


# --- answers that never come ------------------------------------------------------------------------------------------


def test_an_acquire_without_an_answer_is_neither_held_nor_lost() -> None:
    replica = ready("a", Lock(released("b", 7)))
    replica.faults = ["lost-answer"]
    replica.cut = False
    state, actions = decide(replica.state, Seen(lock_state_of(released("b", 7))), 1000.0)
    state, actions = decide(state, MinEpochRead(0), 1000.0)
    (write,) = actions
    assert isinstance(write, Write)
    state, actions = decide(state, Answer(write.attempt.sealed("n", "t"), Unknown("reset")), 1000.5)

    assert not any(isinstance(action, Granted | Lost) for action in actions)
    assert state.held_lease is None
    assert actions[-1] == Read()


def test_an_acquire_that_never_landed_is_tried_again_on_the_same_revision() -> None:
    replica = ready("a", Lock(released("b", 7)))
    replica.faults = ["lost-request"]
    replica.after(2 * RETRY)

    assert replica.epochs == [8]
    assert replica.sent[0].seen == replica.sent[1].seen


def test_an_acquire_that_landed_unanswered_is_recognised_and_won_again_at_once() -> None:
    replica = ready("a", Lock(released("b", 7)))
    replica.faults = ["lost-answer"]
    replica.after(RETRY)

    assert replica.epochs == [9]  # 8 was never told
    assert replica.lock.epoch == 9


def test_an_acquire_that_lands_after_another_one_won_changes_nothing() -> None:
    replica = ready("a", Lock(released("b", 7)))
    replica.faults = ["late"]
    replica.after(2 * RETRY)
    standing = replica.lock.standing
    replica.land()

    assert replica.lock.standing == standing
    assert replica.role() is Role.LEADING


def test_an_acquire_that_lands_late_is_recognised_when_it_is_seen() -> None:
    replica = ready("a", Lock(released("b", 7)))
    replica.faults = ["late", "lost-request", "lost-request"]
    replica.after(1)
    replica.land()
    replica.after(LEASE / 2)

    assert replica.epochs == [9]


def test_a_record_that_names_me_by_a_write_i_never_made_is_somebody_elses() -> None:
    replica = following(Lock(held("a", 7, nonce="theirs"))).after(LEASE - 0.1)

    assert replica.sent == []


def test_a_conflict_with_ones_own_write_is_a_success() -> None:
    replica = ready("a", Lock(released("b", 7)))
    state, _ = decide(replica.state, Seen(lock_state_of(released("b", 7))), 1000.0)
    state, (write,) = decide(state, MinEpochRead(0), 1000.0)
    assert isinstance(write, Write)
    attempt = write.attempt.sealed("n", "t")
    landed = as_sent(attempt)
    state, actions = decide(state, Answer(attempt, Conflict(landed)), 1000.1)

    assert [action.grant.epoch for action in actions if isinstance(action, Granted)] == [8]


def test_a_grant_whose_answer_took_longer_than_its_deadline_is_won_again_before_anyone_is_told() -> None:
    state, _ = decide(ready().state, Seen(lock_state_of(released("b", 7))), 1000.0)
    state, (write,) = decide(state, MinEpochRead(0), 1000.0)
    assert isinstance(write, Write)
    attempt = write.attempt.sealed("n", "t")
    landed = as_sent(attempt)
    state, actions = decide(state, Answer(attempt, Written(landed)), 1000.0 + TIMINGS.renew)
    state, actions = (
        decide(state, MinEpochRead(0), 1000.0 + TIMINGS.renew)
        if not isinstance(actions[-1], Write)
        else (state, actions)
    )

    assert not any(isinstance(action, Granted) for action in actions)
    again = actions[-1]
    assert isinstance(again, Write)
    assert (again.attempt.seen, again.attempt.grant.token_epoch) == (landed, 9)


def test_the_compare_and_set_is_on_the_very_view_that_was_decided_on() -> None:
    """Patroni lost a lock when something refreshed the token between a decision and its write (its issue 3718)."""
    lock = Lock(released("b", 7, revision="r1"))
    replica = ready("a", lock)
    state, _ = decide(replica.state, Seen(lock_state_of(lock.standing)), 1000.0)
    lock.put(held("c", 8))  # while the minimum epoch is being read
    state, _ = decide(state, Hint("r100"), 1000.1)
    state, (write,) = decide(state, MinEpochRead(7), 1000.2)

    assert isinstance(write, Write)
    assert write.attempt.seen == released("b", 7, revision="r1")
    assert isinstance(lock.swap(write.attempt.sealed("n", "t")), Conflict)


def test_a_grant_carries_generation_lock_kind_and_workload() -> None:
    replica = following(Lock())
    grant = view_grant(replica.lock.standing)

    assert grant is not None
    assert (grant.generation, grant.lock, grant.holder) == ("g1", "file", "a")


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_a_stopping_process_never_contends() -> None:
    lock = Lock(held("b", 7))
    replica = following(lock).hear(StopAsked())
    assert replica.role() is Role.STOPPED
    lock.put(released("b", 7, successor="a"))
    replica.hear(Hint("r100"), Evidence("b"), Ready(True)).after(LEASE)

    assert replica.sent == []


def test_one_that_is_asked_to_stop_while_it_reads_the_min_epoch_does_not_write() -> None:
    state, _ = decide(ready().state, Seen(lock_state_of(released("b", 7))), 1000.0)
    state, _ = decide(state, StopAsked(), 1000.0)
    state, actions = decide(state, MinEpochRead(0), 1000.1)

    assert actions == ()
    assert state.role is Role.STOPPED


def test_one_that_wins_after_it_was_asked_to_stop_gives_the_lock_back_and_tells_nobody() -> None:
    lock = Lock(released("b", 7))
    replica = ready("a", lock)
    replica.state, _ = decide(replica.state, Seen(lock_state_of(lock.standing)), 1000.0)
    replica.state, (write,) = decide(replica.state, MinEpochRead(0), 1000.0)
    replica.hear(StopAsked())
    assert isinstance(write, Write)
    attempt = write.attempt.sealed("n", "t")
    replica.hear(Answer(attempt, lock.swap(attempt)))

    assert replica.epochs == []
    assert replica.role() is Role.STOPPED
    grant = view_grant(lock.standing)
    assert grant is not None
    assert grant.released


def test_the_core_never_changes_the_state_it_was_given() -> None:
    before = State(following(Lock(held())).state.rules)
    decide(before, Tick(), 1000.0)

    assert before == State(before.rules)
    assert Held(held(), 7, "b", 15.0).document.name == NAME


def test_a_create_of_ones_own_that_landed_late_is_waited_for_as_any_holder_is() -> None:
    """It says that no replica leads by *it*; between the deletion of one lock and its landing another replica may have begun to lead."""
    state, _ = decide(ready().state, Seen(lock_state_of(None)), 1000.0)
    state, (write,) = decide(state, MinEpochRead(0), 1000.0)
    assert isinstance(write, Write)
    create = write.attempt.sealed("n", "t")
    state, _ = decide(state, Answer(create, Unknown("no answer")), 1002.0)
    state, _ = decide(state, Seen(lock_state_of(as_sent(create))), 1002.0)

    assert contends_at(state) == 1002.0 + LEASE


def test_a_replacement_of_ones_own_that_landed_late_is_taken_over_at_once() -> None:
    state, _ = decide(ready().state, Seen(lock_state_of(released("b", 7))), 1000.0)
    state, (write,) = decide(state, MinEpochRead(0), 1000.0)
    assert isinstance(write, Write)
    replacement = write.attempt.sealed("n", "t")
    state, _ = decide(state, Answer(replacement, Unknown("no answer")), 1002.0)
    state, _ = decide(state, Seen(lock_state_of(as_sent(replacement, revision="r2"))), 1002.0)

    assert contends_at(state) == 1002.0
