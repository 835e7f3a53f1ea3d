"""Where commands other than ``run`` find a cluster id's documents: in a directory of this machine, or in a Kubernetes cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.run import default_ha_dir
from understudy.errors import AccessDenied, ServerUnreachable, SettingsError
from understudy.protocol.names import CLUSTER_LABEL, REPLICAS_LABELS, cluster_of_replicas, replicas_of

if TYPE_CHECKING:
    from understudy.blobs.model import BlobStore
    from understudy.documents.api_server import ApiServer
    from understudy.documents.kubernetes import KubernetesDocumentStore
    from understudy.documents.model import DocumentStore

#: Time-out of one request, in seconds.
REQUEST = 5.0
#: Labels of the document of a cluster's replicas: those of the bundle, else those of the replica that wrote it first.
_MADE_BY_THE_BUNDLE = CLUSTER_LABEL
_WRITTEN_BY_REPLICAS = ",".join(f"{key}={value}" for key, value in REPLICAS_LABELS.items())

HaDir = Annotated[Path | None, typer.Option(help="Where documents are kept.", show_default="~/.local/state/understudy")]
ClusterId = Annotated[str, typer.Option(help="Which cluster.", show_default="each there is")]
Namespace = Annotated[
    str, typer.Option(help="Look in this namespace of a Kubernetes cluster.", show_default="the context's")
]
HaStorage = Annotated[str, typer.Option(help="The HA storage, as understudy run was given it.", show_default="none")]
Conf = Annotated[
    list[str] | None,
    typer.Option(help="A setting of Spark's that says how to reach the HA storage. May be repeated."),
]
Context = Annotated[str, typer.Option(help="Look in the cluster of this kubeconfig context.")]


class NoCluster(SettingsError):
    """There is none, or none of that name."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The documents of ``cluster``. ``lock`` holds its lock, ``documents`` everything else. ``place``: where they are, in words. Either ``home``,
    the directory of the cluster id on this machine, or ``api``, the server of a Kubernetes cluster.
    """

    cluster: str
    documents: DocumentStore
    lock: DocumentStore
    place: str
    home: Path | None = None
    api: ApiServer | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """On this machine if ``ha_dir`` is given; in a Kubernetes cluster if ``namespace`` or ``context`` is; otherwise where a replica
    started here would look.
    """

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
    async def open_new(self, lock: str = "lease") -> AsyncIterator[Stores]:
        """Opens the named cluster, of which nothing needs to be there. Raises ``SettingsError`` where none is named."""
        if not self.cluster_id:
            raise SettingsError("it has to be named", where="--cluster-id", remedy="Give the one that the backup is of")
        if not self.in_kubernetes:
            yield _on_this_machine((self.ha_dir or default_ha_dir()).absolute() / self.cluster_id)
            return
        async with self._reached(lock) as (documents, locks, place, api):
            yield Stores(self.cluster_id, documents, locks, place, api=api)

    @asynccontextmanager
    async def open(self, lock: str = "lease", *, as_named: bool = False) -> AsyncIterator[Stores]:
        """Opens the one cluster there is, or the named one; ``as_named``: also where the API server does not say whether it is there.

        Raises:
            NoCluster: there is none.
            SettingsError: there are several.
        """
        async with self.open_all(lock, as_named=as_named) as found:
            if len(found) > 1:
                names = ", ".join(each.cluster for each in found)
                raise SettingsError(f"several clusters: {names}", where="--cluster-id", remedy="Name one of them")
            yield found[0]

    @asynccontextmanager
    async def open_all(self, lock: str = "lease", *, as_named: bool = False) -> AsyncIterator[list[Stores]]:
        """Opens the named cluster, otherwise every one there is; ``as_named`` as in ``open``.

        Raises:
            NoCluster: there is none.
        """
        if not self.in_kubernetes:
            homes = _homes((self.ha_dir or default_ha_dir()).absolute(), self.cluster_id)
            yield [_on_this_machine(home) for home in homes]
            return
        async with self._reached(lock) as (documents, locks, place, api):
            clusters = await self._clusters(documents, place, as_named=as_named)
            yield [Stores(each, documents, locks, place, api=api) for each in clusters]

    @asynccontextmanager
    async def _reached(self, lock: str) -> AsyncIterator[tuple[KubernetesDocumentStore, DocumentStore, str, ApiServer]]:
        from understudy.documents.api_server import ApiServer
        from understudy.documents.kubernetes import KubernetesDocumentStore
        from understudy.supervisor.backends import lock_store

        async with await ApiServer.connect(REQUEST, self.namespace, self.context) as api:
            yield KubernetesDocumentStore(api), lock_store(api, lock), f"in namespace {api.namespace}", api

    async def _clusters(self, documents: KubernetesDocumentStore, place: str, *, as_named: bool) -> list[str]:
        """Finds cluster ids by the ConfigMap of their replicas, which exists before the first replica does."""
        if self.cluster_id:
            try:
                there = await documents.is_there(replicas_of(self.cluster_id))
            except (AccessDenied, ServerUnreachable):
                if not as_named:
                    raise
                there = True
            if there:
                return [self.cluster_id]
        try:
            names = {*await documents.names(_MADE_BY_THE_BUNDLE), *await documents.names(_WRITTEN_BY_REPLICAS)}
        except AccessDenied:
            if not self.cluster_id:
                raise
            names = set()  # without the right to list, a mistyped id is still the likeliest reason
        known = sorted(cluster for name in names if (cluster := cluster_of_replicas(name)) is not None)
        if self.cluster_id or not known:
            raise NoCluster(
                f"no cluster {self.cluster_id!r} {place}" if self.cluster_id else f"no cluster {place}",
                where="--cluster-id" if self.cluster_id else "--namespace",
                remedy=f"There is {', '.join(known)}"
                if known
                else "Give the --namespace and the --cluster-id of the job",
            )
        return known


def _on_this_machine(home: Path) -> Stores:
    from understudy.documents.filesystem import FilesystemDocumentStore

    store = FilesystemDocumentStore(home / "documents", REQUEST)
    return Stores(home.name, store, store, f"below {home.parent}", home=home)


def blobs_of(url: str, conf: list[str], where: str) -> BlobStore:
    """The store behind ``url``, which was given as ``where``. ``conf``: settings of Spark's that say how to reach it. Raises ``SettingsError``."""
    from understudy.supervisor.backends import ha_storage

    store = ha_storage(url, [word for each in conf for word in ("--conf", each)], REQUEST, where)
    if store is None:
        raise SettingsError("it is empty", where=where, remedy="Write it as understudy run was given it")
    return store


def _homes(ha_dir: Path, cluster: str) -> list[Path]:
    found = sorted(path.parent for path in ha_dir.glob("*/documents") if path.is_dir())
    if not found or (cluster and ha_dir / cluster not in found):
        known = ", ".join(path.name for path in found)
        raise NoCluster(
            f"no cluster {cluster!r} under {ha_dir}" if cluster else f"no cluster under {ha_dir}",
            where="--cluster-id" if cluster else "--ha-dir",
            remedy=f"There is {known}" if known else "Give the --ha-dir that understudy run was given",
        )
    return [ha_dir / cluster] if cluster else found
