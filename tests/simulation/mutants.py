"""A mutant is production code with one guard less, and some seed must catch it. Guards are named by their markers (``guards.py``)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.simulation.guards import AfterTheNext, Change, Instead, Never, Skipped, changed
from tests.simulation.lost_hosts import a_host_is_lost_for_good, living_hosts_are_long_cut_off
from tests.simulation.plan import Kind
from tests.simulation.written import a_lock_is_restored_whose_holder_is_dead


@dataclass(frozen=True, slots=True)
class Mutant:
    """``guards``: each by its marker, and what is made of it. ``kinds``: histories that can tell; empty means all of them."""

    name: str
    guards: tuple[tuple[str, Change], ...]
    kinds: tuple[Kind, ...] = ()
    #: A seed that noticed it when it was last looked for.
    caught_by: int = 0
    #: A history that is written down notices it, because no seed was found that does; the result: what is broken.
    written: Callable[[], list[str]] | None = None
    #: No history notices it, but the search of every interleaving of a process's components (``explore_components``).
    searched: bool = False

    def alive(self) -> AbstractContextManager[object]:
        return changed(self.guards)


def _mutant(name: str, *guards: tuple[str, Change], kinds: tuple[Kind, ...] = (), by: int = 0) -> Mutant:
    return Mutant(name, guards, kinds, by)


def _searched(name: str, *guards: tuple[str, Change]) -> Mutant:
    return Mutant(name, guards, searched=True)


_HARM, _GRACEFUL, _OUTAGE, _ROLLOUT = (Kind.HARM,), (Kind.GRACEFUL,), (Kind.OUTAGE,), (Kind.ROLLOUT,)
_GONE, _MIXED, _STORM, _ASKED = (Kind.GONE,), (Kind.MIXED,), (Kind.STORM,), (Kind.ASKED,)

MUTANTS: tuple[Mutant, ...] = (
    # the lock
    _mutant(
        "compare-and-set on what was decided on",
        (
            "compare-and-set-on-what-was-seen",
            Instead("return await self._store.replace(await self._store.read(attempt.name), attempt.content)"),
        ),
        kinds=_MIXED,
        by=14,
    ),
    _mutant(
        "every write has a nonce of its own",
        ("nonce-per-write", Instead('self._spawn(self._write(attempt.sealed("n", "t")))')),
    ),
    _mutant(
        "a lease is waited for, from when its change was seen here",
        ("lease-counts-from-when-it-was-seen", Instead("return state.changed_at + lease_seconds / 3 + unready")),
        by=20,
    ),
    _mutant(
        "an outage of one's own stops the lease's clock",
        ("outage-stops-the-lease", Instead('return float("inf")')),
        kinds=_OUTAGE,
        by=8,
    ),
    _mutant(
        "a lease counts as over only when it was read after its end",
        ("lease-is-over-only-when-read-after", Instead("return _outdated(state)")),
        kinds=_OUTAGE,
        by=8,
    ),
    Mutant(
        "an outdated record says nothing of who leads",
        (("outdated-record-names-no-leader", Instead("return False")),),
        written=a_lock_is_restored_whose_holder_is_dead,
    ),
    _mutant(
        "every request has a time-out",
        ("requests-time-out", Instead("timer = asyncio.ensure_future(self._clock.sleep(1e6))")),
        by=262,
    ),
    _mutant(
        "a leader that cannot renew parks",
        ("unrenewed-leader-parks", Instead('lose(transition, "late")\nreturn')),
        kinds=_OUTAGE,
        by=5,
    ),
    _mutant(
        "the replica that a release names goes first",
        ("named-successor-goes-first", Instead("return state.changed_at + unready")),
        kinds=_GRACEFUL,
        by=20,
    ),
    _mutant(
        "a stopping process never contends",
        ("stopping-ends-the-election", Never()),
        ("stopping-takes-no-lock", Instead("if state.lock_state is None or due is None or transition.now < due:")),
        ("stopping-gives-back-what-it-acquired", Instead("epoch, stopping = attempt.grant.token_epoch, False")),
        by=230,
    ),
    _mutant(
        "who is told to stop hears it before anything else",
        (
            "stop-is-heard-at-once",
            Instead("asyncio.get_running_loop().call_later(self._settings.timings.request, self._elector.stop)"),
        ),
        by=230,
    ),
    # what the lock says
    _mutant(
        "unreadable is not free",
        ("unreadable-is-not-free", Instead("observation = Seen(Free(shell(error, self._name), 0, None))")),
        kinds=_HARM,
        by=291,
    ),
    _mutant(
        "buried is not free",
        ("buried-is-not-free", Instead("return Free(document, 0 if grant is None else grant.token_epoch, None)")),
        kinds=_HARM,
        by=1,
    ),
    _mutant(
        "missing is not free where something was granted before",
        ("missing-lock-is-waited-for", Never()),
        kinds=_GONE,
        by=0,
    ),
    _mutant(
        "a lock that is gone is taken again",
        ("lost-lock-is-taken-again", Instead("case None | Corrupt() | Buried() | Unwritten() if state.granted:")),
        kinds=_GONE,
    ),
    _mutant(
        "a holder past its deadline gives up a lock that is gone",
        ("late-holder-gives-up-a-missing-lock", Never()),
        kinds=_GONE,
        by=314,
    ),
    _mutant(
        "an epoch is above the minimum",
        ("epoch-above-the-minimum", Instead("epoch = 1 + state.lock_state.epoch")),
        kinds=_HARM,
        by=81,
    ),
    _mutant(
        "an unknown minimum is not 0",
        ("unknown-min-epoch-is-not-zero", Instead("observation = MinEpochRead(0)")),
        kinds=_HARM,
        by=12,
    ),
    # the gate
    _mutant(
        "a gate closes before the lease can be over",
        ("gate-closes-within-the-lease", Instead("close = sent.plus(3 * timings.lease)")),
        by=28,
    ),
    _mutant(
        "a gate opens under the grant that is held at that moment",
        ("gate-opens-under-the-current-grant", Instead("if self.driver is None:")),
        ("driver-starts-under-the-current-grant", Never()),
        ("gate-refuses-other-tokens", Skipped()),
        by=34,
    ),
    _mutant(
        "deadlines count from the sending",
        ("deadlines-count-from-the-sending", Instead("self._sent_at = self._instant().boottime_ns / 1e9")),
        by=1499,
    ),
    _mutant(
        "user code is killed at its deadline",
        ("user-code-is-killed", Instead("return View(State.OPEN, token, close)")),
        by=3256,
    ),
    _mutant("a driver is reaped before its lock is released", ("reaped-before-release", AfterTheNext()), by=621),
    _mutant(
        "a leader's driver is not a standby's that starts late",
        ("one-driver", Instead("case StandbyStartDue(low_priority, because), _ if state.driver is None:")),
        by=2883,
    ),
    _mutant(
        "no executor outlives the driver that another one replaces",
        ("executors-go-before-the-next-driver", Skipped()),
        by=12,
    ),
    # tokens and documents
    _mutant(
        "every start of a driver has an attempt of its own",
        ("attempt-per-start", Instead("token = Token(epoch, 1)")),
        by=5,
    ),
    _mutant("a lower token does not write the job's document", ("lower-token-writes-no-job", Never()), by=28),
    _mutant(
        "a job that has ended stays ended",
        (
            "ended-job-stays-ended",
            Instead("if isinstance(part, Over):\n    job, part = replace(job, status=Status.RUNNING), Joins()"),
        ),
        ("ended-job-is-not-contended-for", Never()),
        by=23,
    ),
    _mutant(
        "a run that has ended is remembered when others have ended since",
        ("ended-run-is-remembered", Never()),
        kinds=_MIXED,
        by=419,
    ),
    # what a run leaves
    _mutant(
        "a run that has ended has a result", ("ended-run-has-a-result", Instead("return None")), kinds=_MIXED, by=2
    ),
    _mutant("a run that has ended leaves nothing", ("ended-run-leaves-nothing", Skipped()), kinds=_MIXED, by=2),
    _mutant(
        "what a living replica rehearses on stays",
        ("scratch-of-the-living-stays", Instead("dead = sorted(holders)")),
        kinds=_MIXED,
        by=4,
    ),
    _mutant(
        "an older generation does not lead after a newer one",
        ("older-generation-never-leads", Never()),
        kinds=_ROLLOUT,
        by=745,
    ),
    Mutant(
        "a replica that has long been silent is not counted",
        (("silent-replica-is-not-counted", Instead("return True")),),
        written=a_host_is_lost_for_good,
    ),
    Mutant(
        "every replica gives signs of life",
        (("every-replica-gives-signs-of-life", Instead("return before != entry")),),
        written=living_hosts_are_long_cut_off,
    ),
    Mutant(
        "time in which nothing was read is no silence",
        (("unread-time-is-no-silence", Never()),),
        written=living_hosts_are_long_cut_off,
    ),
    # requests
    _mutant(
        "a job that is suspended stays suspended",
        ("suspended-job-stays-suspended", Never()),
        ("suspended-job-is-not-contended-for", Never()),
        kinds=_ASKED,
        by=2,
    ),
    _mutant(
        "a drain that was withdrawn changes nothing",
        ("withdrawn-drain-changes-nothing", Never()),
        kinds=_ASKED,
        by=69,
    ),
    _mutant(
        "a request that was withdrawn changes nothing",
        ("withdrawn-request-changes-nothing", Never()),
        kinds=_ASKED,
        by=37,
    ),
    _mutant(
        "a job that is paused is not taken over",
        ("paused-job-is-not-taken-over", Never()),
        kinds=_ASKED,
        by=18,
    ),
    _mutant(
        "a driver that holds begins no batch",
        ("held-driver-begins-no-batch", Never()),
        kinds=_ASKED,
        by=2,
    ),
    # the resource itself
    _mutant("a root refuses a lower token's claim", ("lower-claim-is-refused", Never()), kinds=_STORM, by=28),
    _mutant(
        "gate and claim stand before each write",
        ("gate-before-the-claim-is-read", Skipped()),
        ("claim-before-each-write", Never()),
        ("gate-again-before-the-write", Never()),
        by=28,
    ),
    _mutant("an entry of a log is created once", ("entry-is-created-once", Never()), by=39),
    # components of one election
    _searched("a contender is told one thing at a time", ("contender-is-told-one-thing-at-a-time", Never())),
    _searched(
        "a contender hears of a loss before the next grant",
        ("loss-is-told-before-the-next-grant", Instead("if component.told is not None and wanted is None:")),
    ),
    _searched(
        "a contender that hangs in an old grant is interrupted", ("what-is-not-true-any-more-is-interrupted", Never())
    ),
    _searched("a component that is closed is granted nothing", ("closed-component-is-granted-nothing", Never())),
    _searched("the elector ends with the last component", ("elector-ends-with-the-last-component", Never())),
    _searched("an old confirmation is dropped", ("old-confirmation-is-dropped", Instead("if component is None:"))),
    _searched("a confirmation is of one grant", ("each-grant-is-confirmed-by-itself", Skipped())),
    _searched("a claim takes along what its own grant has confirmed", ("claim-takes-along-its-own-grant", Never())),
    _searched(
        "a component is written under a claim of the job", ("component-is-written-under-a-claim", Instead("if False:"))
    ),
    _searched(
        "the claim of another grant counts for nothing",
        ("claim-of-another-grant-counts-for-nothing", Instead("if state.token is None:")),
    ),
    _searched(
        "a write of another address settles nothing",
        ("write-of-another-address-settles-nothing", Skipped()),
    ),
)
