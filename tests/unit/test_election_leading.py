"""What the core decides while it holds the lock: renew, park, reopen, lose, rewrite, raise, release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.election_builders import (
    TIMINGS,
    Lock,
    Replica,
    as_sent,
    document,
    held,
    leading,
    ready,
    released,
    together,
)
from understudy.documents.model import Conflict, Document, Unknown, Written
from understudy.election.commands import Lost, Raised, Read, Released, Renewed, Write
from understudy.election.inputs import Answer, Hint, RaiseAsked, Ready, ReleaseAsked, Seen, StopAsked, Tick
from understudy.election.machine import decide
from understudy.election.records import Attempt, Corrupt, lock_state_of, view_grant
from understudy.election.state import Role, State
from understudy.protocol.names import BURIED

LEASE, RENEW, RETRY = TIMINGS.lease, TIMINGS.renew, TIMINGS.retry


def sent_renewal(replica: Replica, at: float) -> tuple[State, Attempt]:
    """The state with a renewal under way, sent at ``at``, and that renewal."""
    state, actions = decide(replica.state, Tick(), at)
    (write,) = actions
    assert isinstance(write, Write)
    return state, write.attempt.sealed("n", "t")


def grant_in(lock: Lock) -> tuple[int, bool, str | None]:
    grant = view_grant(lock.standing)
    assert grant is not None
    return grant.token_epoch, grant.released, grant.successor


# --- renewing ---------------------------------------------------------------------------------------------------------


def test_a_leader_renews_every_retry_period_and_keeps_its_epoch() -> None:
    replica = leading().after(10 * RETRY)

    assert [renewed.sent_at for renewed in replica.of(Renewed)] == [1000.0 + RETRY * n for n in range(11)]
    assert replica.lock.epoch == 1
    assert replica.lock.standing is not None
    assert replica.lock.standing.leader is not None
    assert replica.lock.standing.leader.acquired == "1000.000"
    assert replica.lock.standing.leader.transitions == 0


def test_renewing_is_silent() -> None:
    assert leading().after(100).said == ["acquired"]


def test_no_two_writes_carry_the_same_nonce() -> None:
    replica = leading().after(20)

    assert len({attempt.grant.nonce for attempt in replica.sent}) == len(replica.sent)


def test_deadlines_are_counted_from_when_a_renewal_was_sent_not_from_its_answer() -> None:
    state, attempt = sent_renewal(leading(), 1002.0)
    state, actions = decide(state, Answer(attempt, Written(as_sent(attempt))), 1003.9)

    assert actions == (Renewed(1002.0),)
    assert state.gate_deadline == 1002.0 + RENEW
    assert state.kill_deadline == 1002.0 + RENEW + RETRY + TIMINGS.request


def test_a_leader_reads_nothing_as_long_as_its_renewals_are_answered() -> None:
    replica = leading().after(1)
    before = replica.reads
    replica.after(100)

    assert replica.reads == before


def test_the_hint_of_ones_own_renewal_costs_no_request_even_if_it_comes_before_the_answer() -> None:
    state, attempt = sent_renewal(leading(), 1002.0)
    state, _ = decide(state, Hint("r2"), 1002.1)
    state, actions = decide(state, Answer(attempt, Written(as_sent(attempt, revision="r2"))), 1002.2)

    assert Read() not in actions


def test_a_hint_that_somebody_else_wrote_makes_a_leader_look_at_once() -> None:
    replica = leading().after(1)
    replica.lock.put(held("b", 2))
    replica.hear(Hint("r101"))

    assert replica.role() is Role.LOST
    assert replica.now == 1001.0


# --- losing -----------------------------------------------------------------------------------------------------------


def test_a_conflict_with_a_foreign_holder_loses_at_once() -> None:
    replica = leading().after(1)
    replica.lock.put(held("b", 2))
    replica.after(RETRY)

    assert replica.of(Lost) == [Lost("b holds the lock with epoch 2")]
    assert replica.sentence("lost") == "b holds the lock with epoch 2"
    assert replica.after(LEASE / 2).epochs == [1]


def test_a_leader_frozen_past_a_takeover_loses_with_its_first_request() -> None:
    lock = Lock()
    frozen, follower = leading("a", lock), ready("b", lock)
    together([frozen, follower], 1005.0)
    frozen.frozen = True
    together([frozen, follower], 1030.0)
    assert follower.epochs == [2]
    sent = len(frozen.sent)
    frozen.frozen = False
    frozen.hear(Tick())

    assert frozen.of(Lost) == [Lost("b holds the lock with epoch 2")]
    assert len(frozen.sent) == sent + 1
    assert frozen.now == 1030.0


def test_a_released_lock_under_a_leader_is_a_loss() -> None:
    replica = leading()
    replica.lock.put(released("b", 1))

    assert replica.after(RETRY).role() is Role.LOST


def test_a_higher_epoch_in_ones_own_name_is_a_loss() -> None:
    replica = leading()
    replica.lock.put(held("a", 9, nonce="theirs"))

    assert replica.after(RETRY).role() is Role.LOST


def test_a_look_alike_of_ones_own_record_is_a_loss() -> None:
    """A cloned virtual machine has the same holder and the same epoch, and writes other nonces."""
    replica = leading()
    replica.lock.put(held("a", 1, nonce="theirs"))

    assert replica.after(RETRY).role() is Role.LOST


def test_a_buried_lock_is_a_loss() -> None:
    replica = leading()
    assert replica.lock.standing is not None
    replica.lock.put(replace(replica.lock.standing, labels={"understudy.dev/buried": "true"}))

    assert replica.after(RETRY).role() is Role.LOST


def test_a_process_that_lost_contends_again_only_when_its_driver_had_time_to_die() -> None:
    replica = leading()
    replica.lock.put(released("b", 1))
    replica.after(RETRY)
    assert replica.role() is Role.LOST
    replica.until(1000 + RETRY + TIMINGS.kill + RETRY - 0.01)

    assert replica.epochs == [1]
    assert replica.after(RETRY).epochs == [1, 2]


def test_what_a_lost_driver_said_of_its_readiness_does_not_make_its_replica_contend() -> None:
    replica = leading()
    replica.lock.put(released("b", 1))
    replica.after(RETRY)
    replica.hear(Ready(True)).after(TIMINGS.kill + RETRY - 0.01)

    assert replica.epochs == [1]
    assert replica.after(0.02).epochs == [1, 2]


def test_a_process_that_lost_counts_as_unready_until_it_says_otherwise() -> None:
    replica = leading()
    replica.lock.put(held("b", 2))
    replica.after(RETRY)

    assert not replica.state.ready


# --- outages ----------------------------------------------------------------------------------------------------------


def test_a_leader_past_its_deadline_parks() -> None:
    replica = leading()
    replica.cut = True
    replica.until(1000 + RENEW - 0.01)
    assert replica.role() is Role.LEADING
    replica.until(1000 + RENEW)

    assert replica.role() is Role.PARKED
    assert "parked" in replica.said
    assert replica.of(Lost) == []


def test_an_outage_longer_than_the_lease_ends_in_the_same_epoch_if_nobody_else_came() -> None:
    replica = leading()
    replica.cut = True
    replica.after(20 * LEASE)
    replica.cut = False
    replica.after(2 * RETRY)

    assert replica.role() is Role.LEADING
    assert replica.epochs == [1]
    assert replica.lock.epoch == 1
    assert replica.said.count("reopened") == 1
    assert replica.of(Renewed)[-1].sent_at > 1000 + 20 * LEASE


def test_an_outage_that_hits_everyone_costs_no_takeover() -> None:
    lock = Lock()
    leader, followers = leading("a", lock), [ready("b", lock), ready("c", lock)]
    everyone = [leader, *followers]
    together(everyone, 1010.0)
    for replica in everyone:
        replica.cut = True
    together(everyone, 1010.0 + 4 * LEASE)
    for replica in everyone:
        replica.cut = False
    together(everyone, 1010.0 + 6 * LEASE)

    assert leader.role() is Role.LEADING
    assert [replica.epochs for replica in everyone] == [[1], [], []]


def test_a_leader_that_can_write_but_not_read_goes_on_leading() -> None:
    replica = leading()
    replica.deaf = True
    replica.faults = ["lost-request", "ok", "lost-answer"]
    replica.after(3 * LEASE)

    assert replica.role() is Role.LEADING
    assert "parked" not in replica.said


def test_a_leader_that_can_read_but_not_write_parks_and_reopens() -> None:
    replica = leading()
    replica.faults = ["lost-request"] * 12
    replica.after(RENEW)
    assert replica.role() is Role.PARKED
    replica.after(2 * LEASE)

    assert replica.role() is Role.LEADING
    assert replica.epochs == [1]


def test_past_the_deadline_a_record_somebody_put_back_does_not_reopen_the_gate() -> None:
    """Another leader may have come and gone, and a backup been restored: only the very revision proves that none did."""
    replica = leading()
    replica.cut = True
    replica.after(LEASE)
    replica.lock.put(replica.lock.standing)
    replica.cut = False
    replica.after(2 * RETRY)

    assert len(replica.of(Lost)) == 1
    assert "reopened" not in replica.said


def test_within_the_deadline_a_foreign_label_on_the_record_is_no_loss() -> None:
    replica = leading()
    assert replica.lock.standing is not None
    replica.lock.put(replace(replica.lock.standing, labels={"team": "x"}))
    replica.after(RETRY)

    assert replica.role() is Role.LEADING
    assert replica.of(Renewed)[-1].sent_at == 1000 + RETRY


# --- answers that never come ------------------------------------------------------------------------------------------


def test_a_renewal_without_an_answer_keeps_the_old_deadline() -> None:
    state, attempt = sent_renewal(leading(), 1002.0)
    state, actions = decide(state, Answer(attempt, Unknown("reset")), 1002.1)

    assert state.gate_deadline == 1000.0 + RENEW
    assert state.role is Role.LEADING
    assert not any(isinstance(action, Renewed | Lost) for action in actions)


def test_a_renewal_that_landed_unanswered_is_confirmed_with_the_time_it_was_sent() -> None:
    replica = leading()
    replica.faults = ["lost-answer"]
    replica.until(1000 + 2 * RETRY)

    assert [renewed.sent_at for renewed in replica.of(Renewed)] == [1000.0, 1000 + RETRY, 1000 + 2 * RETRY]
    assert replica.role() is Role.LEADING


def test_a_renewal_that_landed_unanswered_while_reads_fail_is_recognised_in_the_conflict() -> None:
    replica = leading()
    replica.deaf = True
    replica.faults = ["lost-answer"]
    replica.until(1000 + 2 * RETRY)

    assert [renewed.sent_at for renewed in replica.of(Renewed)] == [1000.0, 1000 + RETRY, 1000 + 2 * RETRY]
    assert replica.role() is Role.LEADING


def test_a_renewal_that_lands_after_the_deadline_does_not_open_the_gate_by_itself() -> None:
    replica = leading()
    replica.faults = ["late"] + ["lost-request"] * 4
    replica.until(1000 + RENEW + 1)
    assert replica.role() is Role.PARKED
    replica.cut = True
    replica.land()
    replica.after(5)
    assert replica.role() is Role.PARKED
    replica.cut = False
    replica.after(3 * RETRY)

    assert replica.role() is Role.LEADING
    assert replica.epochs == [1]


def test_a_renewal_refused_because_of_itself_is_confirmed() -> None:
    state, attempt = sent_renewal(leading(), 1002.0)
    state, actions = decide(state, Answer(attempt, Conflict(as_sent(attempt))), 1003.0)

    assert actions == (Renewed(1002.0),)


def test_a_server_that_refuses_without_a_reason_is_not_asked_again_at_once() -> None:
    replica = leading()
    state, attempt = sent_renewal(replica, 1002.0)
    state, actions = decide(state, Answer(attempt, Conflict(replica.lock.standing)), 1002.1)

    assert actions == ()
    assert state.role is Role.LEADING
    assert state.next_at == 1002.0 + RETRY


def test_what_is_remembered_of_an_endless_outage_is_bounded() -> None:
    replica = leading()
    replica.cut = True
    replica.after(2000)

    assert len(replica.state.pending) <= 256


# --- missing and damaged content --------------------------------------------------------------------------------------


@pytest.mark.parametrize("standing", [None, document(), document("garbage")])
def test_a_live_holder_rewrites_what_was_emptied_or_damaged_and_keeps_its_epoch(standing: None) -> None:
    replica = leading().after(2 * RETRY)
    replica.lock.put(standing)
    replica.after(RETRY)

    assert replica.role() is Role.LEADING
    assert grant_in(replica.lock) == (1, False, None)
    assert replica.of(Renewed)[-1].sent_at == replica.now
    assert "rewriting" in replica.said


def test_a_live_holder_rewrites_unreadable_bytes_by_their_revision() -> None:
    replica = leading().after(RETRY)
    replica.lock.damage()
    replica.hear(Hint("r999")).after(RETRY)

    assert grant_in(replica.lock) == (1, False, None)
    assert replica.role() is Role.LEADING


def test_what_is_unreadable_and_has_no_revision_is_read_again_and_not_written() -> None:
    state, attempt = sent_renewal(leading(), 1002.0)
    state, actions = decide(state, Answer(attempt, Corrupt(None, "disk error")), 1002.1)
    assert not any(isinstance(action, Write) for action in actions)
    state, actions = decide(state, Tick(), 1002.1 + RETRY)

    assert actions == (Read(),)


@pytest.mark.parametrize("standing", [None, document()])
def test_a_holder_past_its_deadline_gives_up_a_lock_that_is_gone_and_takes_it_above_after_a_lease(
    standing: Document | None,
) -> None:
    """Others may have led meanwhile. If none is there, it must not stay parked for ever over a lock that only it would write."""
    replica = leading()
    replica.cut = True
    replica.after(LEASE)
    replica.lock.put(standing)
    replica.cut = False
    sent = len(replica.sent)
    replica.after(2 * RETRY)

    assert len(replica.sent) <= sent + 1  # at most the compare-and-set that found out
    assert "too late" in replica.sentence("lost")
    assert replica.role() is not Role.LEADING
    replica.after(LEASE + 4 * RETRY)
    assert replica.role() is Role.LEADING
    assert replica.lock.epoch == 2


@pytest.mark.parametrize("standing", [document("garbage")])
def test_a_holder_past_its_deadline_rewrites_nothing(standing: Document | None) -> None:
    replica = leading()
    replica.cut = True
    replica.after(LEASE)
    replica.lock.put(standing)
    replica.cut = False
    sent = len(replica.sent)
    replica.after(LEASE)

    assert len(replica.sent) <= sent + 1  # at most the compare-and-set that found out
    assert replica.role() is Role.PARKED
    assert "too late" in replica.sentence("refused")


def test_while_the_holder_lives_nobody_else_takes_a_lock_that_was_deleted() -> None:
    lock = Lock()
    leader, follower = leading("a", lock), ready("b", lock)
    together([leader, follower], 1010.0)
    lock.put(None)
    together([leader, follower], 1100.0)

    assert leader.role() is Role.LEADING
    assert follower.sent == []
    assert lock.epoch == 1


# --- raising ----------------------------------------------------------------------------------------------------------


def test_an_epoch_is_raised_above_what_was_met() -> None:
    replica = leading().after(1).hear(RaiseAsked(9))

    assert replica.of(Raised) == [Raised(10)]
    assert len(replica.sent) == 2
    assert replica.lock.epoch == 10
    assert replica.of(Renewed)[-1].sent_at == 1001.0
    assert replica.role() is Role.LEADING
    assert replica.after(10).lock.epoch == 10


def test_an_epoch_that_is_above_already_is_kept() -> None:
    replica = leading().hear(RaiseAsked(9), RaiseAsked(9), RaiseAsked(3))

    assert replica.of(Raised) == [Raised(10), Raised(10), Raised(10)]


def test_an_epoch_raised_without_an_answer_is_settled() -> None:
    replica = leading()
    replica.faults = ["lost-answer"]
    replica.hear(RaiseAsked(9)).after(RETRY)

    assert replica.of(Raised) == [Raised(10)]


def test_a_raise_that_meets_another_leader_is_a_loss() -> None:
    replica = leading()
    replica.lock.put(held("b", 11))
    replica.hear(RaiseAsked(9))

    assert replica.of(Raised) == [Raised(None)]
    assert len(replica.of(Lost)) == 1


def test_a_raise_that_is_not_answered_before_the_deadline_is_a_loss() -> None:
    replica = leading()
    replica.cut = True
    replica.hear(RaiseAsked(9)).after(RENEW)

    assert replica.of(Raised) == [Raised(None)]
    assert replica.role() is Role.LOST


def test_an_answer_to_a_write_of_a_lost_grant_does_not_bring_it_back() -> None:
    replica = leading()
    state, _ = decide(replica.state, RaiseAsked(9), 1009.0)
    state, actions = decide(replica.state, RaiseAsked(9), 1009.0)
    write = actions[-1]
    assert isinstance(write, Write)
    attempt = write.attempt.sealed("n", "t")
    state, _ = decide(state, Tick(), 1000.0 + RENEW)
    assert state.role is Role.LOST
    state, actions = decide(state, Answer(attempt, Written(as_sent(attempt))), 1000.1 + RENEW)

    assert actions == ()
    assert state.held_lease is None


# --- releasing --------------------------------------------------------------------------------------------------------


def test_a_release_keeps_the_epoch_and_names_the_successor() -> None:
    replica = leading().after(1).hear(ReleaseAsked("b"))

    assert replica.of(Released) == [Released(ok=True)]
    assert grant_in(replica.lock) == (1, True, "b")
    assert replica.role() is Role.STANDBY
    assert replica.sentence("released") == "epoch 1 is over, b goes first"


def test_a_released_record_is_free_for_client_go_too() -> None:
    replica = leading().hear(ReleaseAsked(None))

    assert replica.lock.standing is not None
    assert replica.lock.standing.leader is not None
    assert (replica.lock.standing.leader.holder, replica.lock.standing.leader.lease_seconds) == ("", 1.0)


def test_a_released_lock_goes_to_the_successor_before_anyone_else() -> None:
    lock = Lock()
    replicas = [leading("a", lock), ready("b", lock), ready("c", lock)]
    together(replicas, 1003.0)
    replicas[0].hear(ReleaseAsked("c"))
    replicas[1].hear(Hint("r-new"))
    replicas[2].hear(Hint("r-new"))
    together(replicas, 1010.0)

    assert [replica.epochs for replica in replicas] == [[1], [], [2]]


def test_a_successor_that_never_comes_is_waited_for_one_retry_period() -> None:
    lock = Lock()
    replicas = [leading("a", lock), ready("b", lock)]
    together(replicas, 1003.0)
    replicas[0].hear(ReleaseAsked("c"), StopAsked())
    together(replicas, 1003.0 + 2 * RETRY)

    assert replicas[1].epochs == [2]


def test_only_a_holder_releases() -> None:
    replica = ready("a", Lock(held("b", 7))).hear(Tick(), ReleaseAsked("c"))

    assert replica.of(Released) == [Released(ok=False)]
    assert replica.sent == []


def test_a_release_is_made_on_the_holders_own_revision_and_deposes_nobody() -> None:
    replica = leading()
    replica.lock.put(held("b", 2))
    replica.hear(ReleaseAsked("c"))

    assert replica.of(Released) == [Released(ok=False)]
    assert replica.of(Lost) == []  # its driver is reaped already
    assert grant_in(replica.lock) == (2, False, None)


def test_a_release_without_an_answer_is_settled() -> None:
    replica = leading()
    replica.faults = ["lost-answer"]
    replica.hear(ReleaseAsked("b")).after(RETRY)

    assert replica.of(Released) == [Released(ok=True)]


def test_a_release_that_nobody_answers_is_given_up_and_the_lease_runs_out() -> None:
    replica = leading()
    replica.cut = True
    replica.hear(ReleaseAsked("b")).after(RENEW)

    assert replica.of(Released) == [Released(ok=False)]
    assert replica.role() is Role.STANDBY


def test_a_parked_leader_can_still_release() -> None:
    replica = leading()
    replica.cut = True
    replica.after(LEASE)
    replica.cut = False

    assert replica.hear(ReleaseAsked("b")).of(Released) == [Released(ok=True)]


def test_a_leader_that_released_renews_no_more_and_says_nothing_to_its_candidate() -> None:
    replica = leading()
    replica.cut = True
    replica.hear(ReleaseAsked("b"))
    replica.cut = False
    before = replica.of(Renewed)
    replica.after(RETRY)

    assert replica.of(Renewed) == before
    assert all(attempt.grant.released for attempt in replica.sent[1:])


def test_a_process_that_released_does_not_snatch_the_lock_back_from_its_successor() -> None:
    replica = leading().hear(ReleaseAsked("b")).after(RETRY)

    assert replica.epochs == [1]


def test_a_release_ends_a_raise() -> None:
    replica = leading()
    replica.faults = ["lost-request"]
    replica.hear(RaiseAsked(9), ReleaseAsked("b"))

    assert replica.of(Raised) == [Raised(None)]


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_a_leader_that_stops_goes_on_renewing_until_it_releases() -> None:
    replica = leading().hear(StopAsked()).after(3 * LEASE)
    assert replica.role() is Role.LEADING
    assert replica.of(Renewed)[-1].sent_at >= replica.now - RETRY
    replica.hear(ReleaseAsked("b"))

    assert replica.of(Released) == [Released(ok=True)]
    assert replica.role() is Role.STOPPED


def test_a_stopping_leader_that_loses_is_stopped_and_never_contends_again() -> None:
    replica = leading().hear(StopAsked())
    replica.lock.put(released("b", 2, successor="a"))
    replica.after(LEASE)

    assert replica.role() is Role.STOPPED
    assert replica.epochs == [1]


def test_a_write_that_landed_before_the_lock_was_buried_does_not_bring_it_back() -> None:
    """A tombstone still holds the record and its nonce; seen, a leader took that for its own write, and led on."""
    a = leading("a")
    a.faults = ["lost-answer"]
    a.after(TIMINGS.retry)
    assert a.lock.standing is not None
    a.lock.put(replace(a.lock.standing, labels={**a.lock.standing.labels, BURIED: "true"}))
    a.after(3 * TIMINGS.retry)
    assert a.sentence("lost") == "the lock was buried"
    assert a.lock.standing.buried


def test_a_lock_that_was_made_again_in_time_but_seen_so_only_after_the_deadline_is_lost() -> None:
    """A create wins on any absence. Another may have led and its lock been deleted, too, before a delayed one landed."""
    state, _ = decide(replace(leading().state, hint=Hint(None)), Tick(), 1001.0)  # the watch says that it is gone
    state, actions = decide(state, Seen(lock_state_of(None)), 1001.1)
    write = next(action for action in actions if isinstance(action, Write))
    assert write.attempt.seen is None
    create = write.attempt.sealed("n", "t")
    state, _ = decide(state, Answer(create, Unknown("no answer")), 1003.1)
    in_time, _ = decide(state, Seen(lock_state_of(as_sent(create))), 1000.0 + RENEW - 0.1)
    late, actions = decide(state, Seen(lock_state_of(as_sent(create))), 1000.0 + RENEW + 0.1)

    assert in_time.role is Role.LEADING
    assert late.role is Role.LOST
    assert any(isinstance(action, Lost) for action in actions)
    assert not any(isinstance(action, Renewed) for action in actions)
