"""Which replica goes first once what kept all of them from the lock is over: a suspended job is resumed, its document can be read again."""

from __future__ import annotations

import pytest

from tests.unit.election_builders import TIMINGS, Lock, Replica, ready, released, together
from understudy.election.inputs import ContendAsked, Ready

LEASE, RETRY = TIMINGS.lease, TIMINGS.retry


def barred(lock: Lock, holder: str, *, is_ready: bool) -> Replica:
    """A replica that sees a free lock and must not take it."""
    return ready(holder, lock, min_epoch=None).hear(Ready(is_ready))


@pytest.mark.parametrize("told", [True, False])
def test_a_ready_one_goes_first(told: bool) -> None:
    lock = Lock(released("b", 7))
    unready, rehearsed = barred(lock, "a", is_ready=False), barred(lock, "c", is_ready=True)
    together([unready, rehearsed], unready.now + LEASE)
    unready.min_epoch = rehearsed.min_epoch = 7
    if told:
        unready.hear(ContendAsked())
        rehearsed.hear(ContendAsked())
    together([unready, rehearsed], unready.now + RETRY)

    assert (unready.epochs, rehearsed.epochs) == ([], [8])


def test_an_unready_one_takes_the_lock_a_retry_period_later() -> None:
    replica = barred(Lock(released("b", 7)), "a", is_ready=False).after(LEASE)
    replica.min_epoch = 7
    replica.hear(ContendAsked())

    assert replica.after(RETRY - 0.01).epochs == []
    assert replica.after(0.02).epochs == [8]
