"""What this replica says of itself to the others, and whom of them it would hand over to."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from understudy.clock import HostClock
from understudy.errors import UnderstudyError
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.replicas import Replica, ReplicaStore, running_queries
from understudy.processes import boot_id
from understudy.protocol.messages import WARM_UP, RehearsalReport
from understudy.redaction import presentable
from understudy.supervisor.hosts import Host
from understudy.supervisor.silence import BEAT_EVERY, NOT_COUNTED_AFTER, REMOVED_AFTER, Silence

#: How often a standby publishes that it is still as rehearsed as before, in seconds; what changes is published at once.
_REFRESH = BEAT_EVERY


class Membership:
    """``is_dead`` is the evidence watch's: an entry of a replica whose processes are all gone is taken out, and never a successor.

    Where no evidence comes of the deaths of others (``Host.told_of_deaths``), an entry that has not changed for 10 minutes is not counted
    either, and is taken out after an hour, as this replica has seen them: ``silence`` has the bounds. Therefore each writes its entry
    again every two to three minutes, which is 30 writes an hour at most; elsewhere that costs nothing.
    """

    def __init__(
        self,
        replicas: ReplicaStore,
        host: Host,
        generation: Callable[[], Generation],
        clock: HostClock,
        log: Log,
        is_dead: Callable[[Replica], bool],
    ) -> None:
        self._replicas = replicas
        self._host = host
        self.generation = generation
        self._clock = clock
        self._log = log
        self._is_dead = is_dead
        self._since = self._script_since = self._clock.wall()
        self._holder = host.holder
        self._published: Replica | None = None
        self._published_at = 0.0
        self._unpublished = ""  # what was said last of why not
        self._silence = None if host.told_of_deaths else Silence(clock)
        self._beats = 0

    def began(self) -> None:
        """A script of ours begins from the top."""
        self._script_since = self._clock.wall()

    async def publish(
        self,
        standing: RehearsalReport,
        rehearsed_at: float,
        *,
        leads: bool,
        running: int = 0,
        failed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Say how things stand, if others do not know it yet. A backend that does not answer costs a line in the log.

        ``running``: how many queries of a leader's script run; ``failed``: which of them have ended, by name, and of what. What kept a
        standby from rehearsing says nothing of the leader that it has become.
        """
        entry = Replica(
            holder=self._holder,
            role="leader" if leads else "standby",
            rehearsed=standing.rehearsed and not leads,
            how=standing.how,
            rounds=standing.rounds,
            rehearsed_at=rehearsed_at,
            held=standing.held,
            reason=presentable("; ".join(f"query {name}: {line}" for name, line in failed.items()))
            if leads
            else standing.reason,
            generation=self.generation().number,
            pid=os.getpid(),
            host=self._host.name,
            inode=self._host.alive.inode,
            boot=boot_id(),
            since=self._since,
            address=self._host.address,
            script_since=self._script_since,
            queries=running if leads else standing.queries,
            beats=self._beats,
        )
        if not self._news(entry):
            return
        if self._silence is not None:
            self._beats += 1
            entry = replace(entry, beats=self._beats)
        try:
            gone = [each.holder for each in await self._others() if self._is_over(each)]
            await self._replicas.publish(entry, gone)
        except UnderstudyError as error:
            if str(error) != self._unpublished:
                self._unpublished = str(error)
                self._log.say("unpublished", self._unpublished)
            return
        self._published, self._published_at, self._unpublished = entry, self._clock.now(), ""

    async def sweep(self) -> None:
        """Take out the entries of replicas that are dead, or lost: a standby that dies is news to no one else, so no entry changes."""
        with suppress(UnderstudyError):
            if gone := [each.holder for each in await self._others() if self._is_over(each)]:
                await self._replicas.take_out(gone)

    async def look(self) -> bool:
        """See which entries have changed since the last look. Whether this replica's own one has to change as well, now and again.

        Where deaths are told, nothing is read, and nothing has to. A document that cannot be read is read at the next look.
        """
        if self._silence is None:
            return False
        with suppress(UnderstudyError):
            await self._read()
        return True

    async def leave(self) -> None:
        with suppress(UnderstudyError):
            await self._replicas.leave(self._holder)

    async def successor(self) -> str | None:
        """A living, rehearsed standby: of the newest generation, and there the one that knows most queries and rehearsed most, then last.

        Where none has rehearsed, one whose script is held before it declares a query, and which has rehearsed another query than its own:
        it is up, and takes over sooner than a driver starts.
        """
        with suppress(UnderstudyError):
            living = await self._living()
            ready = [each for each in living if each.rehearsed] or [
                each for each in living if each.how == WARM_UP and each.role == "standby"
            ]
            if ready:
                return _best(ready).holder
        return None

    async def can_lead(self, holder: str) -> tuple[str | None, str]:
        """``holder``, if it is a living and rehearsed standby of this generation or a later one, else ``None`` and why not.

        Any such standby where ``holder`` is empty.
        """
        if holder == self._holder:
            return None, "this replica leads already"
        try:
            others = await self._living()
        except UnderstudyError as error:
            return None, f"the replicas' document cannot be read: {error}"
        named = [each for each in others if holder in {"", each.holder}]
        if not named:
            return None, f"replica {holder} is gone" if holder else "there is no standby"
        rehearsed = [each for each in named if each.rehearsed]
        if not rehearsed:
            why = "; ".join(f"{each.name}: {each.reason}" for each in named if each.reason)
            return None, "no standby has rehearsed" + (f" ({why})" if why else "")
        current = [each for each in rehearsed if each.generation >= self.generation().number]
        if not current:
            return None, "its code is of an earlier generation, which does not lead any more"
        return _best(current).holder, ""

    async def predecessor(self) -> str | None:
        """A living standby of an earlier generation, rehearsed or not: for a leader whose own code has never come up."""
        with suppress(UnderstudyError):
            earlier = [each for each in await self._standbys() if each.generation < self.generation().number]
            if earlier:
                return max(earlier, key=lambda each: (each.generation, each.rounds, each.rehearsed_at)).holder
        return None

    async def running(self) -> int:
        """How many queries the leader's script runs; 0 where that is not told, or cannot be read."""
        with suppress(UnderstudyError):
            return running_queries(await self._living())
        return 0

    async def may_begin_again(self, *, rehearsed: bool, queries: int = 0, urgent: bool) -> bool:
        """Whether this standby's turn has come to run its script again: the others are as ready as they get, and none began earlier.

        They take turns one at a time, because a standby that has just begun again is not ready, and began last. The
        only rehearsed one does not begin again unless it is ``urgent``, nor does the only one that has rehearsed that
        many ``queries``. False where the documents cannot be read.
        """
        with suppress(UnderstudyError):
            others = await self._standbys()
            ready = all(each.rehearsed or each.reason for each in others)
            first = all((self._script_since, self._holder) < (each.script_since, each.holder) for each in others)
            spare = urgent or not rehearsed or any(each.rehearsed and each.queries >= queries for each in others)
            return ready and first and spare
        return False

    async def standbys(self) -> list[str] | None:
        """Starts of the supervisors that stand by, as far as they said so; ``None`` when that cannot be read."""
        with suppress(UnderstudyError):
            return [each.holder.rpartition("_")[2] for each in await self._standbys()]
        return None

    async def _standbys(self) -> list[Replica]:
        """The other ones that live and stand by."""
        return [each for each in await self._living() if each.role == "standby"]

    async def _living(self) -> list[Replica]:
        """The other ones, without those that are dead or silent."""
        return [each for each in await self._others() if not self._is_dead(each) and self._is_heard_of(each)]

    async def _others(self) -> list[Replica]:
        return [each for each in await self._read() if each.holder != self._holder]

    async def _read(self) -> list[Replica]:
        found = await self._replicas.read()
        if self._silence is not None:
            self._silence.read(found)
        return found

    def _is_heard_of(self, replica: Replica) -> bool:
        # guard: silent-replica-is-not-counted
        return self._silence is None or self._silence.lasts(replica) <= NOT_COUNTED_AFTER

    def _is_over(self, replica: Replica) -> bool:
        """Whether its entry is to be taken out."""
        return self._is_dead(replica) or (self._silence is not None and self._silence.lasts(replica) > REMOVED_AFTER)

    def _news(self, entry: Replica) -> bool:
        before = self._published
        if before is None or self._clock.now() - self._published_at > _REFRESH:
            # guard: every-replica-gives-signs-of-life
            return before != entry or self._silence is not None
        return _told(before) != _told(entry)


def _told(entry: Replica) -> tuple[object, ...]:
    """What others are told of at once."""
    rounds = entry.rounds.bit_length()
    how = entry.rehearsed, entry.how, entry.queries, rounds
    return entry.role, entry.held, entry.reason, entry.script_since, *how


def _best(ready: Collection[Replica]) -> Replica:
    return max(ready, key=lambda each: (each.generation, each.queries, each.rounds, each.rehearsed_at))
