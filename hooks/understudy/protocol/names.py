"""What things are called in a cluster: ids, objects, labels and annotations.

Replicas of other releases, the bundle, dashboards and people know them by these names, so a name that is published stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from understudy.errors import SettingsError

#: Before every label and annotation of ours. In a Lease the entries of a document are annotations behind it.
PREFIX = "understudy.dev/"

#: A label on all objects of the bundle, with the cluster id; a supervisor finds the replicas of its own cluster id by it.
CLUSTER_LABEL = f"{PREFIX}cluster"
#: Labels on executor pods: the cluster id, and which start of a supervisor they belong to.
EXECUTOR_OF_LABEL = f"{PREFIX}executor-of"
HOLDER_LABEL = f"{PREFIX}holder"
#: A label on pods that bring the job of a cluster id to its declared state, with the cluster id.
ENSURES_LABEL = f"{PREFIX}ensures"

#: Labels on documents: what each is.
DOCUMENT_LABEL = f"{PREFIX}document"
LOCK_LABELS: Mapping[str, str] = {DOCUMENT_LABEL: "lock"}
JOB_LABELS: Mapping[str, str] = {DOCUMENT_LABEL: "job"}
COMPONENT_LABEL = f"{PREFIX}component"
REPLICAS_LABELS: Mapping[str, str] = {COMPONENT_LABEL: "replicas"}
#: A label on a document that is a tombstone, with the value ``true``.
BURIED = f"{PREFIX}buried"

#: The annotation in which client-go's ConfigMap lock keeps its record.
LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
#: An annotation that differs in every write: the server gives no new revision to a patch that changes nothing, and a renewal has to be
#: seen.
NONCE_ANNOTATION = f"{PREFIX}write"

#: The source of our Events, and the field manager of our writes.
REPORTING_CONTROLLER = f"{PREFIX}supervisor"
FIELD_MANAGER = "understudy"

_LOCK, _REPLICAS = "-lock", "-replicas"

#: A label of RFC 1123, shortened so that every name derived from it still fits into 63 characters.
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def check_id(value: str, field_name: str) -> str:
    """A cluster or job id: an RFC 1123 label of at most 40 characters, so that derived names fit into 63."""
    if not _DNS_LABEL.fullmatch(value):
        raise SettingsError(
            f"{value!r} is not a DNS label of 1 to 40 characters",
            where=field_name,
            remedy="Use lower-case letters, digits and inner hyphens, for example flights-prod",
        )
    return value


def lock_of(cluster: str) -> str:
    """The lock of a cluster id: a Lease, a ConfigMap, or both."""
    return f"{cluster}{_LOCK}"


def replicas_of(cluster: str) -> str:
    """The document in which the replicas of a cluster id say how they are."""
    return f"{cluster}{_REPLICAS}"


def cluster_of_replicas(document: str) -> str | None:
    """The cluster id whose replicas' document this is; ``None`` where it is another object."""
    return document.removesuffix(_REPLICAS) if document.endswith(_REPLICAS) else None


def job_document_of(cluster: str, job: str) -> str:
    return f"{cluster}-{job}"


@dataclass(frozen=True, slots=True)
class Names:
    """What the objects of a cluster id and its job are called, in every backend."""

    cluster: str
    job: str

    @property
    def lock(self) -> str:
        return lock_of(self.cluster)

    @property
    def job_document(self) -> str:
        return job_document_of(self.cluster, self.job)

    @property
    def replicas(self) -> str:
        return replicas_of(self.cluster)

    @property
    def collide(self) -> bool:
        """Whether two documents would be one: the job is called ``lock`` or ``replicas``."""
        return self.job_document in {self.lock, self.replicas}
