"""The cases of client-go's own leader election tests, asked of our core: ``leaderelection_test.go``, ``healthzadaptor_test.go`` and
``resourcelock/leaselock_test.go`` below ``tools/leaderelection`` (0.37). Not asked: metrics, its own events, and candidates of a coordinator.

Where the answer differs, the test says so and why: client-go knows no epochs, so it has nothing to lose by taking a lock that is
gone or blank; we take one only where nothing was granted before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.doubles.clocks import Hands
from tests.unit.election_builders import TIMINGS, Lock, Replica, document, leader, leading, ready
from understudy.config.timings import Timings
from understudy.documents.kubernetes import KubernetesDocumentStore, LeaseShape
from understudy.documents.model import Content, Document, LeaderRecord
from understudy.election.commands import Released
from understudy.election.inputs import ReleaseAsked, StopAsked, Tick
from understudy.election.records import Free, lock_state_of
from understudy.election.state import Role
from understudy.errors import SettingsError
from understudy.supervisor.health import FenceCounts, Health


def led_by(holder: str, *, lease: float = TIMINGS.lease) -> Lock:
    """As client-go writes it: a record, and no grant."""
    return Lock(document(None, leader(holder, lease=lease, transitions=0)))


def took(replica: Replica) -> LeaderRecord:
    assert replica.role() is Role.LEADING
    assert replica.lock.standing is not None
    assert replica.lock.standing.leader is not None
    assert replica.lock.standing.leader.holder == "baz"
    return replica.lock.standing.leader


# --- TestTryAcquireOrRenewLeases --------------------------------------------------------------------------------------


def test_acquire_from_no_object() -> None:
    assert took(ready("baz").hear(Tick())).transitions == 0


def test_acquire_from_object_without_annotations() -> None:
    took(ready("baz", Lock(document())).hear(Tick()))


def test_acquire_from_led_object_with_the_lease_duration_seconds() -> None:
    """The record's own duration counts, not ours, and from when it was seen."""
    baz = ready("baz", led_by("bing", lease=3.0)).hear(Tick())
    assert baz.role() is Role.STANDBY
    assert took(baz.after(3.0 + TIMINGS.retry)).transitions == 1


def test_acquire_from_unled_object() -> None:
    took(ready("baz", led_by("")).hear(Tick()))


def test_acquire_from_unled_object_waits_for_a_lease_where_something_was_granted_before() -> None:
    """Not client-go's: to it, blank is free."""
    baz = ready("baz", led_by(""), min_epoch=7).after(TIMINGS.lease - 0.1)
    assert baz.role() is Role.STANDBY
    assert baz.after(2 * TIMINGS.retry).role() is Role.LEADING


def test_acquire_from_led_unacked_object() -> None:
    """Seen long ago, and not changed since."""
    assert took(ready("baz", led_by("bing")).after(2 * TIMINGS.lease)).transitions == 1


def test_acquire_from_empty_led_acked_object() -> None:
    """However lately it was seen: it has no holder."""
    took(ready("baz", led_by("")).hear(Tick()))


def test_dont_acquire_from_led_acked_object() -> None:
    baz = ready("baz", led_by("bing")).hear(Tick())
    for _ in range(20):  # it goes on renewing
        baz.lock.put(document(None, leader("bing", renewed=str(baz.now))))
        baz.after(TIMINGS.lease / 2)
    assert baz.role() is Role.STANDBY
    assert baz.sent == []


def test_renew_already_acquired_object() -> None:
    baz = leading("baz")
    before = took(baz)
    after = took(baz.after(TIMINGS.retry))
    assert after == replace(before, renewed=after.renewed)
    assert after.renewed != before.renewed


# --- TestTryCoordinatedRenew ------------------------------------------------------------------------------------------


def test_coordinated_dont_acquire_from_led_acked_object() -> None:
    baz = ready("baz", led_by("bing")).hear(Tick()).after(TIMINGS.lease / 2)
    assert baz.role() is Role.STANDBY


def test_coordinated_renew_already_acquired_object() -> None:
    baz = leading("baz")
    for _ in range(20):
        took(baz.after(TIMINGS.retry))
    assert baz.epochs == [1]


# --- TestLeaseSpecToLeaderElectionRecordRoundTrip ---------------------------------------------------------------------


def test_lease_spec_to_leader_election_record_round_trip() -> None:
    record = LeaderRecord("foo", 10.0, "2026-11-22T12:00:00.000000Z", "2026-11-22T12:00:05.000000Z", 1)
    stored: dict[str, Any] = LeaseShape().patch(Content(leader=record))
    assert LeaseShape().leader(stored) == record
    assert LeaseShape().patch(Content(leader=LeaseShape().leader(stored))) == stored


# --- TestReleaseLeaseLeases, TestReleaseMethodCallsGet, TestReleaseRetriesOnConflict, TestReleaseOnCancellation_Leases ---


def released(replica: Replica) -> Free:
    assert replica.of(Released) == [Released(ok=True)]
    lock_state = lock_state_of(replica.lock.standing)
    assert isinstance(lock_state, Free)
    assert replica.lock.standing is not None
    assert replica.lock.standing.leader is not None
    assert (replica.lock.standing.leader.holder, replica.lock.standing.leader.lease_seconds) == ("", 1.0)
    return lock_state


def test_release_acquired_lock_from_no_object() -> None:
    """Gone under a living holder: it is written again, released."""
    baz = leading("baz")
    baz.lock.put(None)
    baz.hear(StopAsked(), ReleaseAsked(None)).after(TIMINGS.retry)
    assert released(baz).epoch == 1


def test_release_method_calls_get() -> None:
    """A label has changed meanwhile: the release is made on what stands there now."""
    baz = leading("baz")
    assert baz.lock.standing is not None
    baz.lock.put(replace(baz.lock.standing, labels={"theirs": "1"}))
    baz.hear(ReleaseAsked("qux")).after(TIMINGS.retry)
    assert released(baz).successor == "qux"
    assert baz.lock.standing.labels["theirs"] == "1"


def test_release_retries_on_conflict() -> None:
    """Another writer was there first: the release is refused, and made again on what stands there now."""
    baz = leading("baz")
    sent = len(baz.sent)
    assert baz.lock.standing is not None
    baz.lock.put(replace(baz.lock.standing, labels={"theirs": "1"}))
    baz.hear(StopAsked(), ReleaseAsked(None)).after(2 * TIMINGS.retry)
    released(baz)
    assert baz.role() is Role.STOPPED
    assert len(baz.sent) - sent == 2, "one that was refused, and one more"


@pytest.mark.parametrize("lost", ["lost-request", "lost-answer"])
def test_release_acquired_lock_on_cancellation_of_update(lost: str) -> None:
    baz = leading("baz")
    baz.faults = [lost]
    baz.after(TIMINGS.retry)  # a renewal without an answer
    baz.hear(StopAsked(), ReleaseAsked(None)).after(2 * TIMINGS.retry)
    released(baz)
    assert baz.role() is Role.STOPPED


def test_release_acquired_lock_on_cancellation_of_get() -> None:
    baz = leading("baz")
    baz.faults, baz.deaf = ["lost-request"], True
    baz.after(2 * TIMINGS.retry)  # a renewal, and a read after it, without an answer
    baz.deaf = False
    baz.hear(StopAsked(), ReleaseAsked(None)).after(2 * TIMINGS.retry)
    released(baz)
    assert baz.role() is Role.STOPPED


# --- TestLeaderElectionConfigValidation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"lease": 10.0, "renew": 10.0}, "timings.lease"),
        ({"renew": 14.0, "retry": 2.0}, "timings.lease"),
        ({"lease": 0.0}, "timings.lease"),
        ({"renew": 0.0}, "timings.renew"),
        ({"retry": 0.0}, "timings.retry"),
    ],
)
def test_leader_election_config_validation(wrong: dict[str, float], field: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Timings(**wrong)
    assert field in str(refused.value)


# --- TestFastPathLeaderElection ---------------------------------------------------------------------------------------


def test_exercise_fast_path_after_lock_acquired() -> None:
    """A renewal is one request: nothing is read before it."""
    baz = leading("baz")
    reads, writes = baz.reads, len(baz.sent)
    baz.after(10 * TIMINGS.retry)
    assert (baz.reads - reads, len(baz.sent) - writes) == (0, 10)


def test_fallback_to_slow_path_after_fast_path_fails() -> None:
    """Refused by another writer's revision: the refusal shows it, and the next renewal is made on that."""
    baz = leading("baz")
    assert baz.lock.standing is not None
    baz.lock.put(replace(baz.lock.standing, labels={"theirs": "1"}))
    took(baz.after(2 * TIMINGS.retry))
    assert baz.epochs == [1]
    assert baz.role() is Role.LEADING


# --- TestCheckMethodRace ----------------------------------------------------------------------------------------------


def test_the_state_that_is_looked_at_is_never_half_made() -> None:
    """client-go guards it by a mutex; here it is a frozen value that is replaced as a whole."""
    baz = leading("baz")
    seen = baz.state
    baz.after(TIMINGS.retry)
    assert seen is not baz.state
    assert seen.held_lease is not None
    assert seen.lock_state is not None
    assert seen.held_lease.confirmed == seen.lock_state.document


# --- resourcelock: TestGetError, TestGet, TestCreateError, TestUpdateError, TestLabelUpdate ---------------------------------


def stored(spec: dict[str, Any]) -> Document | None:
    store = KubernetesDocumentStore(None, LeaseShape())  # type: ignore[arg-type]
    return store._document("lock", {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": spec})


def test_get_error() -> None:
    """What exists and says nothing is as good as not there, for a question who leads."""
    assert stored({}) is None


def test_get() -> None:
    record = LeaderRecord("foo", 15.0, "2026-11-22T12:00:00.000000Z", "2026-11-22T12:00:05.000000Z", 1)
    found = stored(LeaseShape().patch(Content(leader=record))["spec"])
    assert found is not None
    assert found.leader == record


def test_create_error() -> None:
    """Another candidate has made the object meanwhile."""
    baz = ready("baz")
    baz.faults = ["late"]
    baz.hear(Tick())
    baz.lock.put(document(None, leader("bing")))
    baz.land()
    baz.after(TIMINGS.retry)
    assert baz.role() is Role.STANDBY
    assert baz.lock.standing is not None
    assert baz.lock.standing.leader == leader("bing")


def test_update_error() -> None:
    """The object is gone under its holder. client-go stops; ours writes it again, under the grant that it holds."""
    baz = leading("baz")
    baz.lock.put(None)
    took(baz.after(2 * TIMINGS.retry))
    assert baz.epochs == [1]


def test_label_update() -> None:
    """Labels that are not ours stay as they are."""
    baz = leading("baz")
    assert baz.lock.standing is not None
    baz.lock.put(replace(baz.lock.standing, labels={"custom-key": "new-custom-val", "custom-key-2": "custom-val-2"}))
    took(baz.after(3 * TIMINGS.retry))
    assert baz.lock.standing.labels["custom-key"] == "new-custom-val"
    assert baz.lock.standing.labels["custom-key-2"] == "custom-val-2"


# --- TestLeaderElectionHealthChecker ----------------------------------------------------------------------------------
#
# client-go's adaptor fails where a leader's lease is over for longer than is tolerated, because a process of its does not notice by itself. Ours
# does: its gate has closed by then, and its driver waits. A kubelet that ended it would end a warm driver that may go on.


def asked(*, leads: bool, clock: Hands) -> Health:
    health = Health(clock, FenceCounts(), live_within=4.0)
    if leads:
        health.granted(1, 0.1)
    return health


def test_call_check_before_leader_elector_initialized() -> None:
    assert asked(leads=False, clock=Hands()).live


def test_call_check_when_the_lease_is_far_expired() -> None:
    """It is parked, and its elector tries to renew: it lives. client-go's adaptor fails."""
    clock = Hands()
    health = asked(leads=True, clock=clock)
    clock.at += 600.0
    health.last_decision_at = clock.now()
    assert health.live


def test_call_check_when_the_lease_is_far_expired_and_the_elector_stands_still() -> None:
    """Not client-go's: of an elector it knows the lease alone."""
    clock = Hands()
    health = asked(leads=True, clock=clock)
    clock.at += 600.0
    assert not health.live


def test_call_check_when_the_lease_is_far_expired_but_held_by_another_server() -> None:
    """client-go's adaptor passes it always. Ours is of use only while its elector has its turn."""
    clock = Hands()
    health = asked(leads=False, clock=clock)
    clock.at += 600.0
    assert not health.live
    health.last_decision_at = clock.now()
    assert health.live


def test_call_check_when_the_lease_is_not_expired() -> None:
    clock = Hands()
    health = asked(leads=True, clock=clock)
    clock.at += 1.0
    assert health.live


def test_call_check_when_the_lease_is_expired_but_inside_the_timeout() -> None:
    """The timeout is on the elector's turns."""
    clock = Hands()
    health = asked(leads=True, clock=clock)
    clock.at += 3.9
    assert health.live
    clock.at += 0.2
    assert not health.live
