"""Where a cluster id's documents are, for commands that are not a replica's: a directory here, or a Kubernetes cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.run import default_ha_dir
from understudy.errors import SettingsError

if TYPE_CHECKING:
    from understudy.documents.model import DocumentStore

#: Time-out of one request, in seconds.
_REQUEST = 5.0

HaDir = Annotated[Path | None, typer.Option(help="Where documents are kept.", show_default="~/.local/state/understudy")]
ClusterId = Annotated[str, typer.Option(help="Which cluster.", show_default="the only one there")]
Namespace = Annotated[
    str, typer.Option(help="Look in this namespace of a Kubernetes cluster.", show_default="the context's")
]
Context = Annotated[str, typer.Option(help="Look in the cluster of this kubeconfig context.")]


@dataclass(frozen=True, slots=True)
class Stores:
    """What is known of ``cluster``; ``lock`` holds its lock, ``documents`` everything else. ``place``: where that is, in words."""

    cluster: str
    documents: DocumentStore
    lock: DocumentStore
    place: str


@dataclass(frozen=True, slots=True)
class Where:
    """On this machine if ``ha_dir`` is given, in a Kubernetes cluster if ``namespace`` or ``context`` is; else as a replica would."""

    ha_dir: Path | None
    cluster_id: str
    namespace: str
    context: str

    @property
    def in_kubernetes(self) -> bool:
        """Raises ``SettingsError``."""
        elsewhere = self.namespace or self.context
        if self.ha_dir and elsewhere:
            raise SettingsError(
                "a directory of this machine, and a Kubernetes cluster",
                where="--ha-dir",
                remedy="Leave it out, or leave out --namespace and --context",
            )
        return bool(elsewhere or (not self.ha_dir and os.environ.get("KUBERNETES_SERVICE_HOST")))

    @asynccontextmanager
    async def open(self, lock: str = "lease") -> AsyncIterator[Stores]:
        if not self.in_kubernetes:
            from understudy.documents.filesystem import FilesystemDocumentStore

            home = _home((self.ha_dir or default_ha_dir()).absolute(), self.cluster_id)
            store = FilesystemDocumentStore(home / "documents", _REQUEST)
            yield Stores(home.name, store, store, f"below {home.parent}")
            return
        if not self.cluster_id:
            raise SettingsError(
                "not given", where="--cluster-id", remedy="Name the cluster id that understudy run was given"
            )
        from understudy.documents.api_server import ApiServer
        from understudy.documents.kubernetes import KubernetesDocumentStore
        from understudy.supervisor.places import lock_store

        async with await ApiServer.connect(_REQUEST, self.namespace, self.context) as api:
            yield Stores(
                self.cluster_id, KubernetesDocumentStore(api), lock_store(api, lock), f"in namespace {api.namespace}"
            )


def _home(ha_dir: Path, cluster: str) -> Path:
    if cluster:
        if not (ha_dir / cluster / "documents").is_dir():
            raise SettingsError(
                f"no cluster {cluster!r} under {ha_dir}", where="--cluster-id", remedy="Look at --ha-dir"
            )
        return ha_dir / cluster
    found = sorted(path.parent for path in ha_dir.glob("*/documents"))
    match found:
        case [only]:
            return only
        case []:
            raise SettingsError(
                f"no cluster under {ha_dir}",
                where="--ha-dir",
                remedy="Give the directory that understudy run was given",
            )
        case _:
            names = ", ".join(path.name for path in found)
            raise SettingsError(f"several clusters: {names}", where="--cluster-id", remedy="Name one of them")
