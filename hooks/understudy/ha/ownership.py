"""Which document is which. Names are joined with hyphens, so two cluster ids of one namespace can arrive at one name.

Cluster ``a`` with job ``b-c`` and cluster ``a-b`` with job ``c`` both name ``a-b-c``; a job ``b-lock`` of cluster ``a`` names the
lock of cluster ``a-b``. Names cannot be changed without losing what they name; so the content says whose a document is, and the
second to come is refused. Two clusters with one job document always have different job ids, and the job's record names its own.
"""

from __future__ import annotations

from understudy.documents.model import Document
from understudy.election.records import GRANT
from understudy.errors import IdentityConflict

#: The entry that each kind of document has from its first write on.
JOB = "job"
CLUSTER = "cluster"

_KINDS = {JOB: "a job's document", CLUSTER: "a replicas' document", GRANT: "a lock"}
_REMEDY = "Choose another --cluster-id or --job-id: documents of one namespace are told apart by <cluster-id>-<job-id>"


def refuse_foreign(document: Document | None, entry: str) -> None:
    """Raises ``IdentityConflict`` for a document of another kind than the one that ``entry`` belongs to."""
    if document is None or document.buried or entry in document.entries:
        return
    for other, what in _KINDS.items():
        if other in document.entries:
            raise IdentityConflict(f"this is {what} of another cluster id", where=document.name, remedy=_REMEDY)


def refuse_removed(document: Document | None) -> None:
    """Raises ``IdentityConflict`` for a document that was buried: its revision stays, so that no old grant comes back, and nothing else."""
    if document is not None and document.buried:
        raise IdentityConflict(
            "the HA data of this cluster id were removed for good",
            where="--cluster-id",
            remedy="Choose another one, or delete what is left of this one where it was kept (understudy purge says where)",
        )


def refuse_other_job(name: str, found: str, ours: str) -> None:
    """Raises ``IdentityConflict`` for a job's document whose record names another job than ``ours``."""
    if found != ours:
        raise IdentityConflict(
            f"this document holds job {found!r} of another cluster id, not {ours!r}", where=name, remedy=_REMEDY
        )
