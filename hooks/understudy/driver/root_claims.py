"""Claims of a driver: every root that its queries use, before anything is read there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from understudy.driver.fence_check import FenceCheck
from understudy.driver.fence_client import FenceClient
from understudy.driver.gate_client import GateClient
from understudy.driver.parallel import call_each
from understudy.errors import CheckpointDrained, LeadershipLost
from understudy.protocol.gate import State
from understudy.protocol.messages import ClaimRefused, Granted, Message, Roots

#: What the fence is told of a root that the job's document does not list, and where it knows of no batch.
_UNRECORDED, _NO_BATCH = -1, -1

#: Seconds between two looks at the gate while an answer of the supervisor is waited for.
_LOOK = 0.05


class RootClaims:
    """``send`` reaches the supervisor, which raises the token above a higher claim that was met, or ends this driver."""

    def __init__(
        self, gate_client: GateClient, check: FenceCheck, fence: FenceClient, send: Callable[[Message], None]
    ) -> None:
        self._check = check
        self._fence = fence
        self._gate_client = gate_client
        self._send = send
        self._lock = threading.Lock()
        self._claimed: dict[str, Any] = {}  # with the session that writes there
        self._recorded: dict[str, int] = {}
        self._committed: dict[str, int] = {}
        self._drained: frozenset[str] = frozenset()
        self._checkpoints: frozenset[str] = frozenset()  # on record when this driver was granted the lead
        self._ever: set[str] = set()  # roots that this driver has claimed, also of queries that have ended since
        self._granted = threading.Event()
        self._reclaim = threading.Event()

    def granted(self, granted: Granted) -> None:
        """Lead, with what the job's document says of its roots."""
        if granted.draining:
            self._fence.hold_batches()  # before any query starts: what waits for the grant claims first
        self._recorded, self._committed = dict(granted.recorded), dict(granted.committed)
        self._checkpoints = frozenset(granted.committed)
        self._drained = frozenset(granted.drained)
        self._granted.set()

    def reclaim(self) -> None:
        """The token was raised above the higher claim."""
        self._reclaim.set()

    def claim(self, roots: Mapping[str, Any]) -> None:
        """Claim ``roots``, each with the session that is going to write there: its fence is checked first.

        Raises ``LeadershipLost`` when a claim is refused and the supervisor does not raise this driver's token above it.
        """
        for session in dict.fromkeys(roots.values()):
            self._check.session(session)
        confs = _confs(roots)
        while not self._granted.wait(_LOOK):  # the gate opens a moment before the message with what is recorded
            self._stop_if_revoked("the gate is revoked")
        for root in self._drained.intersection(roots):
            self._check.refuse(CheckpointDrained.of(root))
        fresh = {root: session for root, session in roots.items() if root not in self._claimed}
        answers = self._answers(fresh, confs)
        while refused := {root: answer for root, answer in answers.items() if answer["outcome"] == "refused"}:
            # Met a higher claim: the supervisor either raises this driver's epoch above it, or ends this driver.
            root, answer = max(refused.items(), key=lambda item: int(item[1].get("token") or 0))
            self._reclaim.clear()
            owner = f"job {answer['job']} of cluster {answer['cluster']}" if answer.get("job") else ""
            self._send(ClaimRefused(root, str(answer["reason"]), int(answer.get("token") or 0), owner))
            while not self._reclaim.wait(_LOOK):
                self._stop_if_revoked(f"{root} holds a higher claim")
            # All of them again, those of earlier queries too: the token has grown, and the record will list it for every root.
            with self._lock:
                every = {**self._claimed, **fresh}
            answers = self._answers(every, _confs(every))
        if fresh:
            self._note(fresh)

    @property
    def unclaimed(self) -> list[str]:
        """Checkpoints on record that no query of this driver has begun to use."""
        with self._lock:
            return sorted(self._checkpoints - self._ever)

    def forget(self, roots: Collection[str]) -> None:
        """No query uses these any longer: one that does later claims them again."""
        with self._lock:
            for root in roots:
                self._claimed.pop(root, None)

    def _note(self, fresh: Mapping[str, Any]) -> None:
        with self._lock:
            self._claimed.update(fresh)
            self._ever.update(fresh)
            known = sorted(self._claimed)
            for root in fresh:
                # from here on this driver knows better than the record: its script may have removed the root
                self._recorded.pop(root, None)
                self._committed.pop(root, None)
        self._send(Roots(known))

    def _stop_if_revoked(self, why: str) -> None:
        if self._gate_client.standing() is State.REVOKED:
            raise LeadershipLost(why)

    def _answers(self, roots: Mapping[str, Any], confs: Mapping[Any, Any]) -> dict[str, dict[str, Any]]:
        """What claiming each root came to, all at once: in an object store a claim is several requests."""

        def claim(root: str) -> dict[str, Any]:
            recorded, committed = self._recorded.get(root, _UNRECORDED), self._committed.get(root, _NO_BATCH)
            return self._fence.claim(root, confs[roots[root]], recorded, committed)

        return dict(zip(roots, call_each(claim, list(roots), at_most=8), strict=True))


def _confs(roots: Mapping[str, Any]) -> dict[Any, Any]:
    """The Hadoop configuration of each session, read now."""
    return {each: each._jsparkSession.sessionState().newHadoopConf() for each in dict.fromkeys(roots.values())}  # noqa: SLF001
