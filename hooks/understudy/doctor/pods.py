"""The pods of a cluster id, as the API server shows them: where replicas run, under which account, and which of them are gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.doctor.replicas import Seen
from understudy.errors import DocumentError, ServerUnreachable
from understudy.ha.replicas import Replica
from understudy.protocol.names import CLUSTER_LABEL
from understudy.submit import option

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer, Json


@dataclass(frozen=True, slots=True)
class Pod:
    """``native``: the job's executors are pods, as its command line says."""

    uid: str
    node: str
    account: str
    native: bool


async def pods(api: ApiServer, cluster: str) -> list[Pod]:
    """Raises ``DocumentError``, also where they may not be listed."""
    from understudy.documents.api_server import forbidden

    try:
        answer = await api.request("GET", api.path("pods"), labelSelector=f"{CLUSTER_LABEL}={cluster}")
    except OSError as error:
        raise ServerUnreachable(
            f"the API server does not answer: {str(error) or type(error).__name__}", where="pods"
        ) from error
    if answer.status == 403:
        raise forbidden(answer, "list", "pods", api.namespace, "")
    if answer.status != 200:
        raise DocumentError(answer.reason, where="pods", remedy="Look at the API server")
    return [_pod(each) for each in answer.body.get("items", [])]


def _pod(body: Json) -> Pod:
    spec = body.get("spec") or {}
    words = [word for each in spec.get("containers") or [] for word in (each.get("args") or [])]
    account = spec.get("serviceAccountName") or "default"
    # files that it names are not on this machine
    native = option(words, "--master", "spark.master").startswith("k8s://")
    return Pod(str(body["metadata"]["uid"]), str(spec.get("nodeName") or ""), str(account), native)


def seen_in(found: Sequence[Pod], replicas: Sequence[Replica]) -> Seen:
    """A holder in a cluster begins with its pod's uid."""
    nodes = {each.uid: each.node for each in found}
    of = {each.holder: each.holder.partition("_")[0] for each in replicas}
    gone = frozenset(holder for holder, uid in of.items() if uid not in nodes)
    return Seen(gone, {holder: nodes[uid] for holder, uid in of.items() if nodes.get(uid)})
