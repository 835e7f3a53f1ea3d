"""Which replicas have gone silent, where no word of a death comes from elsewhere: a host that is off for good says nothing of it.

Entries of the replicas' document are watched as the election watches a lease: from when *this* replica saw one change, by its own
clock. Wall-clock times that other machines have written are never read.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.clock import Clock
from understudy.ha.replicas import Replica

#: Seconds between two looks at the document, of every replica on such a host.
LOOK_EVERY = 60.0
#: Seconds after which a replica writes its entry again although nothing is new. It is found out at a look, hence 180 s at most.
BEAT_EVERY = 120.0
#: Seconds without a change after which an entry is not counted any more: more than three beats in a row that failed.
NOT_COUNTED_AFTER = 600.0
#: Seconds without a change after which an entry is removed, and with it what the replica has in scratch: longer than a leader that is cut
#: off keeps its driver (``grace``).
REMOVED_AFTER = 3600.0
#: Seconds between two reads above which the time between them proves nothing: the server may have been away. With a shorter outage the
#: living still write again before they are not counted.
_BLIND_AFTER = 3 * LOOK_EVERY


class Silence:
    """What one replica has seen of the others' entries. ``clock`` goes on while the machine is suspended.

    An entry is silent for as long as it has stood there unchanged in every read. Bounds: a replica that is gone is not counted after
    ``NOT_COUNTED_AFTER`` to ``NOT_COUNTED_AFTER`` + ``LOOK_EVERY`` seconds, and is removed after ``REMOVED_AFTER`` to ``REMOVED_AFTER`` + 2 ×
    ``LOOK_EVERY`` seconds (and the time of the requests), as long as this replica can read the document. A read that comes
    more than 180 s after the last one begins all counts again: during an outage the living are silent, too.

    Not guaranteed: that a silent replica is dead. It may be frozen, cut off, or unable to write. So no lock is taken on this word, and one
    that is back writes its entry again. Not judged: an entry without beats, of an older release or of a replica whose death is told.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[Replica, float]] = {}
        self._read_at = clock.now()

    def read(self, replicas: Iterable[Replica]) -> None:
        """The document was read just now, and this stood there."""
        now = self._clock.now()
        # guard: unread-time-is-no-silence
        if now > self._read_at + _BLIND_AFTER:
            self._seen.clear()
        self._read_at = now
        self._seen = {each.holder: self._since(each, now) for each in replicas}

    def lasts(self, replica: Replica) -> float:
        """For how many seconds an entry that stood there in the last read had not changed by then; 0 where that is not known."""
        seen = self._seen.get(replica.holder)
        return self._read_at - seen[1] if seen is not None and replica.beats else 0.0

    def _since(self, replica: Replica, now: float) -> tuple[Replica, float]:
        seen = self._seen.get(replica.holder)
        return seen if seen is not None and seen[0] == replica else (replica, now)
