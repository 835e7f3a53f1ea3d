"""What replicas may do at the API server, verb by verb: each right that their Role has to give, and what follows where one is missing.

The API server is asked, and no Role is read: other Roles may give the same, and an authorizer may be no RBAC at all. A pod asks for itself. From
outside the pods' service account is asked about, which needs a right of its own; where that is missing, nothing is concluded from what
the person who asks may do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.doctor.finding import Finding, Severity, note, of_error, ok
from understudy.errors import AccessDenied, DocumentError, ServerUnreachable
from understudy.protocol.names import Names

if TYPE_CHECKING:
    from understudy.documents.api_server import Answer, ApiServer, Json

CHECK = "rights"

_REVIEWS = "authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Right:
    """``group``: the API group without its version; empty for the core. ``name`` is empty for all objects. ``without``: what follows where it is
    missing, and ``severity`` how bad that is.
    """

    verb: str
    group: str
    resource: str
    name: str
    severity: Severity
    without: str


#: In place of a lock's kind where lock and documents are not the API server's.
ELSEWHERE = ""

_JOB = {
    "get": (Severity.PROBLEM, "no replica can start"),
    "patch": (Severity.PROBLEM, "no replica can lead"),
    "list": (Severity.NOTE, "replicas run without it, and tools that list the object do not show it"),
    "watch": (Severity.WARNING, "changes are seen late"),
}
_REPLICAS = {**_JOB, "patch": (Severity.PROBLEM, "no replica can start")}
_LOCK = {**_JOB, "get": (Severity.PROBLEM, "no replica can lead")}
_PODS = {
    "get": (Severity.PROBLEM, "no replica can start"),
    "list": (Severity.WARNING, "the death of a leader is not seen: its lease has to run out"),
    "watch": (Severity.WARNING, "the death of a leader is not seen: its lease has to run out"),
}
_EXECUTORS = {
    "create": (Severity.PROBLEM, "no executor can start"),
    "get": (Severity.PROBLEM, "no executor can start"),
    "list": (Severity.PROBLEM, "the driver does not see its executors"),
    "watch": (Severity.PROBLEM, "the driver does not see its executors"),
    "patch": (Severity.WARNING, "executors cannot be labelled"),
    "delete": (Severity.WARNING, "executors are left behind"),
    "deletecollection": (Severity.WARNING, "executors of earlier leaders are left behind"),
}


def needed(names: Names, lock: str, *, native: bool) -> list[Right]:
    """What a replica needs. ``lock``: lease, configmap or multi, or ``ELSEWHERE``; ``native``: its executors are pods."""
    documents = () if lock == ELSEWHERE else ((names.job_document, _JOB), (names.replicas, _REPLICAS))
    found = [
        Right(verb, "", "configmaps", name, *meaning)
        for name, meanings in documents
        for verb, meaning in meanings.items()
    ]
    if lock in {"configmap", "multi"}:
        found += [Right(verb, "", "configmaps", names.lock, *meaning) for verb, meaning in _LOCK.items()]
    if lock in {"lease", "multi"}:
        leases = "coordination.k8s.io", "leases"
        found += [Right(verb, *leases, names.lock, *meaning) for verb, meaning in _LOCK.items()]
        found.append(
            Right(
                "create",
                *leases,
                "",
                Severity.WARNING,
                "a Lease that is deleted does not come back, and the job waits for it",
            )
        )
    of_pods = _PODS | (_EXECUTORS if native else {})
    found += [Right(verb, "", "pods", "", *meaning) for verb, meaning in of_pods.items()]
    order = "replicas order generations by their start"
    found.append(Right("get", "apps", "replicasets", "", Severity.WARNING, order))
    found.append(Right("create", "events.k8s.io", "events", "", Severity.NOTE, "there are no Events"))
    return found


# Asking


@dataclass(frozen=True, slots=True)
class Asked:
    """``whom`` was asked about, in words; ``missing`` of ``number`` rights, each with what the API server said."""

    whom: str
    number: int
    missing: Mapping[Right, str]


async def ask(api: ApiServer, rights: Collection[Right], account: str = "") -> Asked:
    """About service account ``account`` of the API server's namespace; empty for ourselves.

    Raises ``AccessDenied`` where that may not be asked, ``ServerUnreachable`` and ``DocumentError``.
    """
    namespace = api.namespace
    answers = await asyncio.gather(*(_ask(api, right, account) for right in rights))
    missing = {right: reason for right, (allowed, reason) in zip(rights, answers, strict=True) if not allowed}
    whom = f"service account {namespace}/{account}" if account else await _self(api)
    return Asked(whom, len(rights), missing)


async def _ask(api: ApiServer, right: Right, account: str) -> tuple[bool, str]:
    attributes = {
        "namespace": api.namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        **({"name": right.name} if right.name else {}),
    }
    spec: Json = {"resourceAttributes": attributes}
    if account:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{api.namespace}", "system:authenticated"]
        spec |= {"user": f"system:serviceaccount:{api.namespace}:{account}", "groups": groups}
    kind = "LocalSubjectAccessReview" if account else "SelfSubjectAccessReview"
    path = (
        api.path("localsubjectaccessreviews", group=_REVIEWS)
        if account
        else f"/apis/{_REVIEWS}/selfsubjectaccessreviews"
    )
    body = {
        "apiVersion": _REVIEWS,
        "kind": kind,
        "metadata": {"namespace": api.namespace} if account else {},
        "spec": spec,
    }
    status = (await _post(api, path, body)).body.get("status") or {}
    return status.get("allowed") is True, str(status.get("reason") or status.get("evaluationError") or "")


async def _self(api: ApiServer) -> str:
    """As whom the API server knows us; older ones do not tell."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await _post(api, "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
        name = str(answer.body["status"]["userInfo"]["username"])
    except (DocumentError, LookupError, TypeError):
        return "the account of this pod"
    return f"service account {name.removeprefix('system:serviceaccount:').replace(':', '/')}"


async def _post(api: ApiServer, path: str, body: Json) -> Answer:
    from understudy.documents.api_server import forbidden

    try:
        answer = await api.request("POST", path, body)
    except OSError as error:
        raise ServerUnreachable(
            f"the API server does not answer: {str(error) or type(error).__name__}", where=path
        ) from error
    if answer.status == 403:
        raise forbidden(answer, "create", path.rpartition("/")[2], api.namespace, "")
    if answer.status not in {200, 201}:
        raise DocumentError(answer.reason, where=path, remedy="Look at the API server")
    return answer


# Findings


def findings(asked: Asked, namespace: str) -> list[Finding]:
    found = [_missing(asked.whom, right, reason, namespace) for right, reason in asked.missing.items()]
    return found or [ok(CHECK, f"{asked.whom} has each of the {asked.number} rights that a replica needs")]


def _missing(whom: str, right: Right, reason: str, namespace: str) -> Finding:
    what = f"{right.resource}.{right.group}" if right.group else right.resource
    which = f"{what} {namespace}/{right.name}" if right.name else f"{what} in {namespace}"
    named = f" with resourceNames [{right.name}]" if right.name else ""
    said = f" ({reason})" if reason else ""
    text = f"{whom} may not {right.verb} {which}{said}: {right.without}"
    remedy = f"Add {right.verb} on {what}{named} to the HA Role of namespace {namespace}"
    return Finding(
        CHECK, right.severity, text, remedy, AccessDenied.exit_code if right.severity is Severity.PROBLEM else 0
    )


def not_asked(why: DocumentError | str) -> Finding:
    """Where the replicas' account is not known, or may not be asked about."""
    remedy = "Run it in a pod, which asks for itself: kubectl exec deployment/NAME -- understudy doctor"
    if isinstance(why, str):
        return note(CHECK, f"what the replicas may do was not asked: {why}", remedy)
    if isinstance(why, AccessDenied):
        return note(CHECK, f"what the replicas may do was not asked: {why.what}", remedy)
    return of_error(CHECK, why, Severity.WARNING)
