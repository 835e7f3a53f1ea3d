"""What another package provides so that ``--ha NAME`` can choose it: a ``Plugin`` under the entry point group ``understudy.ha``.

::

    [project.entry-points."understudy.ha"]
    etcd = "understudy_etcd:PLUGIN"

``PLUGIN`` is a ``Plugin``. Its ``connect`` makes ``HighAvailabilityServices`` of ``ServicesSettings``. What belongs to a machine or a pod is no
part of it: identity, evidence of a death, and a replica's own processes are a ``Host``'s.

This module has all that such a package imports: the names in ``__all__`` stay, whichever module they are defined in, and so do the fields of
their classes. New fields have defaults. Everything else of Understudy may change. ``examples/understudy-etcd`` imports nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.addresses import joined as join_host_port
from understudy.addresses import split as split_host_port
from understudy.documents.model import (
    Conflict,
    Content,
    Document,
    DocumentStore,
    LeaderRecord,
    Outcome,
    Unknown,
    Written,
    check_name,
    conflict,
)
from understudy.documents.record import Record
from understudy.documents.record import dump as dump_record
from understudy.documents.record import load as load_record
from understudy.documents.size import SizeCheck
from understudy.errors import (
    AccessDenied,
    DocumentError,
    DocumentTooLarge,
    DocumentUnreadable,
    EnvironmentProblem,
    ServerUnreachable,
    SettingsError,
)
from understudy.events import Log
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.names import cluster_of_replicas
from understudy.services.names import find_names
from understudy.submit import all_settings

__all__ = [
    "GROUP",
    "AccessDenied",
    "Conflict",
    "Content",
    "Document",
    "DocumentError",
    "DocumentStore",
    "DocumentTooLarge",
    "DocumentUnreadable",
    "EnvironmentProblem",
    "HighAvailabilityServices",
    "LeaderRecord",
    "Log",
    "Outcome",
    "Plugin",
    "Record",
    "ServerUnreachable",
    "ServicesSettings",
    "SettingsError",
    "SizeCheck",
    "Unknown",
    "Written",
    "all_settings",
    "check_name",
    "cluster_of_replicas",
    "conflict",
    "dump_record",
    "find_names",
    "join_host_port",
    "load_record",
    "split_host_port",
]

#: The group of entry points that is searched for ``--ha NAME``.
GROUP = "understudy.ha"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesSettings:
    """What services are made from. The same value is given by ``understudy run`` and by every command that reads or changes documents.

    ``cluster``: the cluster id, of which every document's name begins; empty where clusters are to be listed. ``lock``: the lock's kind, one of
    the plug-in's. ``address``: ``--ha-address`` as it was given; empty if it was not. ``request_timeout``: seconds after which one request
    counts as unanswered; services have to apply it to each request by themselves. ``ha_dir``: ``--ha-dir``, absolute, this machine's own; it
    may be missing. ``namespace`` and ``context``: Kubernetes' own, mostly empty. ``submit``: options of spark-submit, which say how a bucket is
    reached (``all_settings`` reads them); a command passes its ``--conf``. ``log``: where services say what they notice;
    ``None`` in a command.
    """

    cluster: str
    lock: str
    request_timeout: float
    ha_dir: Path
    address: str = ""
    namespace: str = ""
    context: str = ""
    submit: tuple[str, ...] = ()
    log: Log | None = None

    @property
    def home(self) -> Path:
        """What this machine keeps of the cluster id; it may be missing."""
        return self.ha_dir / self.cluster


async def _none_listed(settings: ServicesSettings) -> list[str]:
    del settings
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One kind of services.

    ``locks``: the kinds of lock there are, the default first. A kind's name stands in every claim, and claims of different kinds exclude each
    other, so it belongs to one plug-in: those of the built-in services are refused. ``connect`` makes services, and proves that they can be used
    before anything is written: it reads, and raises ``SettingsError`` for a wrong ``--ha-address``, ``AccessDenied`` for wrong credentials, and
    ``ServerUnreachable`` where no answer comes. Other exceptions are reported as a defect of the plug-in. ``clusters`` lists the cluster ids
    there are, for commands without ``--cluster-id``; it raises what ``connect`` raises. ``address``: how ``--ha-address``
    looks, where it has to be given; empty where it need not be.
    """

    locks: tuple[str, ...]
    connect: Callable[[ServicesSettings], Awaitable[HighAvailabilityServices]]
    clusters: Callable[[ServicesSettings], Awaitable[list[str]]] = _none_listed
    address: str = ""
