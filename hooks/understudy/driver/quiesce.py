"""Quiesce: hold new batches of a leader that is told to stop, and tell when ending it loses no work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError

from understudy.driver.fence_client import FenceClient, key_of
from understudy.driver.gate_client import GateClient
from understudy.driver.query_registry import QueryRegistry
from understudy.protocol.messages import Message, Quiesced

#: A batch that ends within this many milliseconds is not cut off.
_ALMOST_DONE_MS = 50

#: Milliseconds between two looks at user code that is waited for.
_LOOK_MS = 20

#: A batch whose ``foreachBatch`` has ended is not cut off either, if it is committed within this many milliseconds.
_COMMIT_MS = 150


@dataclass(slots=True, eq=False, kw_only=True)
class Quiesce:
    gate_client: GateClient
    registry: QueryRegistry
    fence: FenceClient
    send: Callable[[Message], None]

    def before_handover(self, patience: float) -> None:
        """Hold new batches; send ``Quiesced`` once none is running, or once ending is as good as waiting. Waits for nothing.

        The successor runs a batch again that is cut off, at no cost: it has rehearsed that batch. User code that runs now
        (``foreachBatch``, a writer) may not stand being run twice, so it gets ``patience`` seconds to finish, unless it is known
        to take longer. So do batches without rows, where all are: the successor would have to run them before the first batch
        with rows.
        """
        threading.Thread(target=self._quiesce, args=(patience,), name="quiesce", daemon=True).start()

    def _quiesce(self, patience: float) -> None:
        until = time.monotonic() + patience
        clean = self.fence.quiesce(_ALMOST_DONE_MS)
        if not clean and self.gate_client.user_code_runs:
            clean = self.gate_client.may_end_by(until) and self._wait_for_user_code(until)
        elif not clean and not self._any_rows():
            clean = self.fence.quiesce(round(patience * 1000))
        self.send(Quiesced(clean))

    def _wait_for_user_code(self, until: float) -> bool:
        """Wait for the user's code, and then for its commit: batches of other queries are not waited for."""
        while self.gate_client.user_code_runs and time.monotonic() < until:
            if self.fence.quiesce(_LOOK_MS):
                return True
        if self.gate_client.user_code_runs:
            return False
        commit_by = min(time.monotonic(), until) + _COMMIT_MS / 1000
        while (left := commit_by - time.monotonic()) > 0 and self._user_batch_in_flight():
            self.fence.quiesce(min(_LOOK_MS, round(left * 1000)))
        return self.fence.quiesce(0)

    def _user_batch_in_flight(self) -> bool:
        """Whether a query with a ``foreachBatch`` has a batch that is not committed."""
        queries = [each for each in self.registry.queries() if each.sink.kind == "foreachbatch"]
        roots = {key_of(each.checkpoint) for each in queries}
        try:
            return not roots.isdisjoint(self.fence.roots_in_flight())
        except Py4JJavaError:  # what cannot be looked into counts as in flight, as it does for the fence
            return True

    def _any_rows(self) -> bool:
        """Whether a query has rows in its batch, or has failed: then its batch stays in flight."""
        queries = [each.query for each in self.registry.queries() if each.query is not None]
        return any(not query.isActive or query.status["isDataAvailable"] for query in queries)
