"""Claims of a driver: every root its queries use, before anything is read there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from py4j.protocol import Py4JError

from understudy.driver.fence_check import FenceCheck
from understudy.driver.gate_client import GateClient
from understudy.driver.parallel import call_each
from understudy.errors import EnvironmentProblem, IdentityConflict, LeadershipLost, UnderstudyError
from understudy.protocol.gate import State
from understudy.protocol.messages import ClaimRefused, Message, Roots

#: What the fence is told of a root that the job's document does not list.
_UNRECORDED = -1

_SHARED = (
    "A checkpoint and a streaming file sink belong to one job; only jobs that append in batches may share a directory. "
    "Choose another directory, or run the job under the cluster id and job id that claimed this one"
)


class RootClaims:
    """``say`` reaches the supervisor, which raises the token above a higher claim that was met, or ends this driver."""

    def __init__(self, gate_client: GateClient, check: FenceCheck, say: Callable[[Message], None]) -> None:
        self._check = check
        self._gate_client = gate_client
        self._say = say
        self._lock = threading.Lock()
        self._claimed: dict[str, Any] = {}  # with the session that writes there
        self._jvm: Any = None
        self._recorded: dict[str, int] = {}
        self._granted = threading.Event()
        self._reclaim = threading.Event()

    def attached(self, jvm: Any) -> None:
        self._jvm = jvm

    def granted(self, recorded: Mapping[str, int]) -> None:
        """Lead; the job's document lists these roots, each with the token it was claimed under (0: it is not known)."""
        self._recorded = dict(recorded)
        self._granted.set()

    def reclaim(self) -> None:
        """The token was raised above the higher claim."""
        self._reclaim.set()

    def claim(self, roots: Mapping[str, Any]) -> None:
        """``roots`` with the session that is going to write there: it is asked for its fence first.

        Raises ``LeadershipLost`` when a claim is refused and the supervisor does not raise our token above it.
        """
        for session in dict.fromkeys(roots.values()):
            self._check.session(session)
        confs = _confs(roots)
        while not self._granted.wait(0.05):  # the gate opens a moment before the message that says what is recorded
            self._stop_if_revoked("the gate is revoked")
        fresh = {root: session for root, session in roots.items() if root not in self._claimed}
        answers = self._answers(fresh, confs)
        while refused := {root: answer for root, answer in answers.items() if answer["outcome"] == "refused"}:
            # Met a claim above ours: the supervisor either raises our epoch above it, or ends this driver.
            root, answer = max(refused.items(), key=lambda item: int(item[1].get("token") or 0))
            self._reclaim.clear()
            owner = f"job {answer['job']} of cluster {answer['cluster']}" if answer.get("job") else ""
            self._say(ClaimRefused(root, str(answer["reason"]), int(answer.get("token") or 0), owner))
            while not self._reclaim.wait(0.05):
                self._stop_if_revoked(f"{root} holds a claim above ours")
            # All of them again, those of earlier queries too: the token has grown, and the record is going to say so of every root.
            with self._lock:
                every = {**self._claimed, **fresh}
            answers = self._answers(every, _confs(every))
        if fresh:
            with self._lock:
                self._claimed.update(fresh)
                known = sorted(self._claimed)
                for root in fresh:
                    # from here on this driver knows better than the record: its script may have removed it
                    self._recorded.pop(root, None)
            self._say(Roots(known))

    def forget(self, roots: Collection[str]) -> None:
        """No query uses these any more: one that does later claims them again."""
        with self._lock:
            for root in roots:
                self._claimed.pop(root, None)

    def _stop_if_revoked(self, why: str) -> None:
        if self._gate_client.standing() is State.REVOKED:
            raise LeadershipLost(why)

    def _answers(self, roots: Mapping[str, Any], confs: Mapping[Any, Any]) -> dict[str, dict[str, Any]]:
        """What claiming each root came to, all at once: in an object store a claim is several requests."""

        def claim(root: str) -> dict[str, Any]:
            recorded = self._recorded.get(root, _UNRECORDED)
            return dict(json.loads(self._jvm.dev.understudy.fence.Fence.claim(root, confs[roots[root]], recorded)))

        return dict(zip(roots, call_each(claim, list(roots), at_most=8), strict=True))


def _confs(roots: Mapping[str, Any]) -> dict[Any, Any]:
    """The Hadoop configuration of each session, new."""
    return {each: each._jsparkSession.sessionState().newHadoopConf() for each in dict.fromkeys(roots.values())}  # noqa: SLF001


def refusal(jvm: Any) -> UnderstudyError | None:
    """Why the fence refuses this driver and every one after it; ``None`` if it does not, or cannot be asked."""
    if jvm is None:
        return None
    try:
        text = str(jvm.dev.understudy.fence.Fence.refusal())
    except (Py4JError, OSError):
        return None
    return _error(json.loads(text)) if text else None


def _error(noted: Mapping[str, str]) -> UnderstudyError:
    match noted["kind"]:
        case "unfit":
            remedy = "Use an object store with conditional writes (AWS S3, versitygw), or a local disk"
            return EnvironmentProblem(noted["what"], where=noted["where"], remedy=remedy)
        case _:
            return IdentityConflict(noted["what"], where=noted["where"], remedy=_SHARED)
