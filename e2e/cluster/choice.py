"""Which cluster the end-to-end tests run in: a decision, and the rule that keeps them out of clusters that matter.

The tests make and delete namespaces, kill what they made, and bind roles. A cluster that the caller's KUBECONFIG happens to
name is used without a question only if its context has a name that is not given to a cluster that matters; any other has to be
confirmed by repeating its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_HARMLESS = re.compile(r"kind-.+|minikube|lab")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller's environment says."""

    kubeconfig: str = ""
    context: str = ""
    confirm: str = ""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Wishes:
        return cls(*(environ.get(name, "").strip() for name in ("KUBECONFIG", "E2E_CONTEXT", "E2E_CONFIRM")))


@dataclass(frozen=True, slots=True)
class Given:
    """The caller's own cluster."""

    context: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A new cluster in Docker; where it turns out that Docker cannot run one, the local cluster."""


@dataclass(frozen=True, slots=True)
class Local:
    """The cluster of ``e2e/cluster``: namespaces on this machine."""


@dataclass(frozen=True, slots=True)
class Refused:
    """None; ``reason`` is one line that says what to do."""

    reason: str


Choice = Given | Kind | Local | Refused


def choose(wishes: Wishes, *, current_context: str, kind: bool, root: bool) -> Choice:
    """Decide from the caller's wishes and from what the machine can do.

    ``current_context`` is what the kubeconfig names as such; ``kind``: both kind and a Docker that answers are here.
    """
    if wishes.kubeconfig:
        context = wishes.context or current_context
        if not context:
            return Refused(f"{wishes.kubeconfig} has no current context: name one in E2E_CONTEXT")
        if is_harmless(context) or wishes.confirm == context:
            return Given(context)
        return Refused(
            f"the context {context} of {wishes.kubeconfig} is not called kind-*, minikube or lab; if tests may make and"
            f" delete namespaces there, say so: E2E_CONFIRM={context}. Without KUBECONFIG a cluster is made for them"
        )
    if wishes.context:
        return Refused(f"E2E_CONTEXT={wishes.context} names a context, but in which file? Set KUBECONFIG too")
    if kind:
        return Kind()
    if root:
        return Local()
    return Refused(
        "no cluster: set KUBECONFIG, install kind with Docker, or call as root (sudo make e2e), which makes one"
    )


def is_harmless(context: str) -> bool:
    return _HARMLESS.fullmatch(context) is not None


def is_ready(node: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])


def takes_pods(node: Mapping[str, Any]) -> bool:
    """Any pod: kind's control plane takes none that does not tolerate its taint, unless it is the only node."""
    taints = node["spec"].get("taints") or ()
    return is_ready(node) and all(taint["effect"] == "PreferNoSchedule" for taint in taints)


def too_few(nodes: Iterable[Mapping[str, Any]], *, everything: bool) -> Refused | None:
    """``everything``: tests that drain a node and that want an executor on another than its driver are to run as well."""
    there, wanted = sum(map(takes_pods, nodes)), 2 if everything else 1
    if there >= wanted:
        return None
    return Refused(
        f"{there} of its nodes takes pods, and these tests want {wanted}"
        + (": make e2e is content with one, and without KUBECONFIG a cluster is made for them" if there else "")
    )
