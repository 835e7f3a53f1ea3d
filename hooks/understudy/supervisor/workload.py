"""Which Deployment or Job a pod belongs to, which revision it runs, and whether another workload has our cluster id."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from understudy.election.state import ElectionView
from understudy.errors import AccessDenied, DocumentError, ServerUnreachable
from understudy.events import Log

if TYPE_CHECKING:
    from understudy.documents.api_server import Answer, ApiServer, Json

#: The Deployment's number for a ReplicaSet. A rollback gives the old ReplicaSet a new one.
_REVISION = "deployment.kubernetes.io/revision"


class AfterExit(enum.Enum):
    """What follows the end of a replica's process."""

    NOTHING = "nothing that is known here"
    RESTART = "the kubelet starts it again, after any exit code"
    COUNTED = "its Job counts it: 0 says that the run has ended, and a pod that has failed is replaced or fails the Job"


@dataclass(frozen=True, slots=True)
class Rollout:
    """``workload`` names the Deployment or Job and its uid, empty if the pod has none or may not know. A Deployment numbers its
    revisions; ``revision`` is 0 for others: the template of a Job never changes.

    ``image`` is what the pod's first container runs.
    """

    api: ApiServer
    replica_set: str = ""
    workload: str = ""
    revision: int = 0
    image: str = ""
    after_exit: AfterExit = AfterExit.NOTHING

    @classmethod
    async def of(cls, api: ApiServer, pod: str, log: Log) -> Self:
        """Raises ``DocumentError`` when the API server does not answer, or lets us not see our own pod."""
        from understudy.documents.api_server import not_of_the_object

        answer = await _get(api, api.path("pods", pod))
        if (error := not_of_the_object(answer, pod)) is not None:
            raise error
        if answer.status != 200:
            kind = AccessDenied if answer.status == 403 else DocumentError
            raise kind(
                f"this service account may not see its own pod: {answer.reason}",
                where=pod,
                remedy=f"Add get, list and watch on pods to the HA Role of namespace {api.namespace}, and check --namespace",
            )
        spec = answer.body["spec"]
        after_exit = AfterExit.RESTART if spec.get("restartPolicy") == "Always" else AfterExit.NOTHING
        alone = cls(api, image=str(spec["containers"][0]["image"]), after_exit=after_exit)
        owner = _controller(answer.body)
        if owner.get("kind") == "Job":
            return replace(alone, workload=f"{owner['name']}/{owner['uid']}", after_exit=AfterExit.COUNTED)
        if owner.get("kind") != "ReplicaSet":
            return alone
        found = await _get(api, api.path("replicasets", owner["name"], "apps/v1"))
        if found.status != 200:
            log.say(
                "no-revision",
                f"which revision this pod runs cannot be seen, so generations are told by their order of start: {found.reason}",
            )
            return alone
        deployment = _controller(found.body)
        if deployment.get("kind") != "Deployment":
            return alone
        workload = f"{deployment['name']}/{deployment['uid']}"
        return replace(alone, replica_set=owner["name"], workload=workload, revision=_revision(found.body))

    async def look(self) -> int:
        """The revision now; 0 if it cannot be seen."""
        if not self.replica_set:
            return 0
        found = await _get(self.api, self.api.path("replicasets", self.replica_set, "apps/v1"))
        return _revision(found.body) if found.status == 200 else 0


async def find_conflicting_workload(view: Callable[[], ElectionView], workload: str, pause: float) -> str:
    """The other workload that leads our cluster id, once its leader was seen to renew; looks every ``pause`` seconds."""
    return (await seen_renewing(view, lambda now: now.workload not in ("", workload), pause)).workload


async def seen_renewing(
    view: Callable[[], ElectionView], interesting: Callable[[ElectionView], bool], pause: float
) -> ElectionView:
    """The view in which a leader that is ``interesting`` has renewed since it was first seen; looks every ``pause`` seconds."""
    first: ElectionView | None = None  # in which this leader was seen
    while True:
        now = view()
        if now.leader is None or not interesting(now):
            first = None
        elif first is None or first.leader != now.leader:
            first = now
        elif first.revision != now.revision:
            return now
        await asyncio.sleep(pause)


def _controller(thing: Json) -> dict[str, Any]:
    owners = thing["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})


def _revision(replica_set: Json) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(_REVISION, "")
    return int(text) if text.isdigit() else 0


async def _get(api: ApiServer, path: str) -> Answer:
    try:
        return await api.request("GET", path)
    except OSError as error:
        raise ServerUnreachable(
            f"the API server does not answer: {str(error) or type(error).__name__}",
            where=path,
            remedy="Is it reachable from here, and does a NetworkPolicy let us out?",
        ) from error
