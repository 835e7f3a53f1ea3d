"""What a rehearsed function may have handed to a thread of the script that was there before, through a queue or a variable."""

from __future__ import annotations

import threading
from collections.abc import Callable

_REASON = (
    "a thread of the script waits to write at {place}, and began to after a foreachBatch function was called in a rehearsal: what it"
    " holds may be the rehearsal's"
)


class HandedOver:
    """Whether any thread may hold a rehearsal's rows. None of its writes passes the gate, also not at the grant: the script has to
    run again from the top, and no function is rehearsed any more.

    ``advise`` gets a sentence for the user, ``restart`` the reason why a driver that was granted has to start again; each once.

    Not seen: a thread that makes its first attempt after the grant, or began to wait before the first rehearsal and goes on with
    what a rehearsal has put into its queue since.
    """

    def __init__(
        self, advise: Callable[[str], None] = lambda _: None, restart: Callable[[str], None] = lambda _: None
    ) -> None:
        self._advise = advise
        self._restart = restart
        self._lock = threading.Lock()
        self._restarts = False
        self.called = False  # whether any function was, in a rehearsal
        self.reason = ""

    def suspects(self, place: str) -> bool:
        """Whether the calling thread, which begins to wait on a standby before it writes, may hold what is a rehearsal's.

        The main thread is the script's own sequence: what it does next, it does without rehearsals, too.
        """
        if not self.called or threading.current_thread() is threading.main_thread():
            return False
        with self._lock:
            first, self.reason = not self.reason, self.reason or _REASON.format(place=place)
        if first:
            self._advise(
                f"{self.reason}. It never writes that: this standby's script runs again from the top, and no foreachBatch function"
                " is called in rehearsals any more. Mark no function as rehearsable that gives work to a thread made before"
            )
        return True

    def overtaken(self) -> bool:
        """At the grant: whether this driver has to start again, which is asked for once."""
        with self._lock:
            asks = bool(self.reason) and not self._restarts
            self._restarts = self._restarts or asks
        if asks:
            self._restart(self.reason)
        return bool(self.reason)
