"""Cluster and job ids, and the names of the objects that are derived from them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from understudy.errors import SettingsError

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


@dataclass(frozen=True, slots=True)
class Names:
    """What the objects of a cluster id and its job are called, in every backend."""

    cluster: str
    job: str

    @property
    def lock(self) -> str:
        return f"{self.cluster}-lock"

    @property
    def job_document(self) -> str:
        return f"{self.cluster}-{self.job}"

    @property
    def replicas(self) -> str:
        return f"{self.cluster}-replicas"

    @property
    def collide(self) -> bool:
        """Whether two documents would be one: the job is called ``lock`` or ``replicas``."""
        return self.job_document in {self.lock, self.replicas}
