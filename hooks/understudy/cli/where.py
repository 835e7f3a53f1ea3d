"""Where commands other than ``run`` find a cluster id's documents: on this machine, in a Kubernetes cluster, or where ``--ha`` says."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import enumeration
from understudy.cli.run import default_ha_dir
from understudy.config.locks import BUILT_IN
from understudy.errors import AccessDenied, DocumentUnreadable, ServerUnreachable, SettingsError
from understudy.protocol.names import check_id, replicas_of

if TYPE_CHECKING:
    from understudy.blobs.model import BlobStore
    from understudy.documents.api_server import ApiServer
    from understudy.documents.model import DocumentStore
    from understudy.ha.services import HighAvailabilityServices
    from understudy.services.plugin import ServicesSettings

#: Time-out of one request, in seconds.
REQUEST = 5.0
#: The same of one for a file of up to 64 MiB.
FILES = 60.0


def given(variable: str, meaning: str, **shown: Any) -> Any:
    """An option that ``variable`` of the environment gives where it is not typed. Help does not show the variable: each follows from its option."""
    return typer.Option(envvar=variable, show_envvar=False, help=meaning, **shown)


HaDir = Annotated[
    Path | None,
    given("UNDERSTUDY_HA_DIR", "Where documents are kept.", show_default="~/.local/state/understudy"),
]
ClusterId = Annotated[str, given("UNDERSTUDY_CLUSTER_ID", "Which cluster.", show_default="each there is")]
JobId = Annotated[
    str,
    given("UNDERSTUDY_JOB_ID", "Its job, where no replica has been there yet.", show_default="the cluster id"),
]
Namespace = Annotated[
    str,
    given("UNDERSTUDY_NAMESPACE", "Look in this namespace of a Kubernetes cluster.", show_default="the context's"),
]
HaStorage = Annotated[
    str,
    given("UNDERSTUDY_HA_STORAGE", "The HA storage, as understudy run was given it.", show_default="none"),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(help="A setting of Spark's that says how to reach a bucket. May be repeated."),
]
Context = Annotated[str, typer.Option(help="Look in the cluster of this kubeconfig context.")]
Lock = Annotated[
    str,
    typer.Option(
        help="The lock's kind in a cluster: lease, configmap or multi.",
        show_default="lease",
        **enumeration(BUILT_IN["kubernetes"]),
    ),
]
Ha = Annotated[
    str,
    given(
        "UNDERSTUDY_HA",
        "The high-availability services, as understudy run was given them.",
        show_default="kubernetes or filesystem",
    ),
]
HaAddress = Annotated[
    str,
    given("UNDERSTUDY_HA_ADDRESS", "Where those services are, as understudy run was told.", show_default="none"),
]


class NoCluster(SettingsError):
    """There is none, or none of that name."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The documents of ``cluster``. ``lock`` holds its lock, of kind ``lock_kind``, ``documents`` everything else. ``place``: where they are, in
    words. ``home``: the directory of the cluster id, where they are on this machine; ``api``: the server, where they are in a Kubernetes cluster.
    """

    cluster: str
    documents: DocumentStore
    lock: DocumentStore
    place: str
    lock_kind: str = "file"
    home: Path | None = None
    api: ApiServer | None = None

    @property
    def locks(self) -> dict[str, DocumentStore]:
        """By kind, each store in which a replica may hold the lock.

        In a Kubernetes cluster both, whichever ``--lock`` says: replicas may have been given another one, and ``multi`` is both.
        """
        if self.api is None:
            return {self.lock_kind: self.lock}
        from understudy.services.kubernetes import lock_store

        return {kind: lock_store(self.api, kind) for kind in ("lease", "configmap")}


@dataclass(frozen=True, slots=True)
class Where:
    """Where ``ha`` says, if it is given. Otherwise on this machine if ``ha_dir`` is given; in a Kubernetes cluster if ``namespace`` or ``context``
    is; else where a replica started here would look. ``conf``: settings of Spark's that say how to reach a bucket.

    A directory and a namespace that the environment sets are defaults: what is typed goes against them, and in a pod such a directory does not
    choose, because there it is a replica's place for what is local.
    """

    ha_dir: Path | None
    cluster_id: str
    namespace: str
    context: str
    ha: str = ""
    ha_address: str = ""
    conf: Sequence[str] | None = None

    @property
    def submit(self) -> tuple[str, ...]:
        """``conf`` as options of spark-submit."""
        return tuple(word for each in self.conf or () for word in ("--conf", each))

    @property
    def home(self) -> Path:
        """What this machine keeps of the cluster id; it may be missing."""
        return self._told("").home

    def home_of(self, cluster: str) -> Path:
        """What this machine keeps of ``cluster``; it may be missing."""
        return self._told("").ha_dir / cluster

    @property
    def services(self) -> str:
        """The name of the services. Raises ``SettingsError``."""
        directory = _typed(self.ha_dir, "UNDERSTUDY_HA_DIR")
        namespace = _typed(self.namespace, "UNDERSTUDY_NAMESPACE")
        elsewhere = namespace or bool(self.context)
        if self.ha and self.ha != "kubernetes" and elsewhere:
            raise SettingsError(
                f"--ha {self.ha}, and a Kubernetes cluster",
                where="--namespace" if namespace else "--context",
                remedy="Leave it out, or leave out --ha",
            )
        if self.ha:
            return self.ha
        if self.ha_address:
            raise SettingsError(
                "whose it is is not said", where="--ha-address", remedy="Give --ha, as to understudy run"
            )
        if directory and elsewhere:
            raise SettingsError(
                "a directory of this machine, and a Kubernetes cluster",
                where="--ha-dir",
                remedy="Leave it out, or leave out --namespace and --context",
            )
        in_cluster = elsewhere or self.namespace or os.environ.get("KUBERNETES_SERVICE_HOST")
        return "kubernetes" if in_cluster and not directory else "filesystem"

    @property
    def in_kubernetes(self) -> bool:
        """Raises ``SettingsError``."""
        return self.services == "kubernetes"

    @property
    def on_this_machine(self) -> bool:
        """Raises ``SettingsError``."""
        return self.services == "filesystem"

    @asynccontextmanager
    async def open_new(self, lock: str = "") -> AsyncIterator[Stores]:
        """Opens the named cluster, of which nothing needs to be there. Raises ``SettingsError`` where none is named."""
        if not self.cluster_id:
            raise SettingsError("it has to be named", where="--cluster-id", remedy="Give the one that it is for")
        if self.on_this_machine:
            yield _on_this_machine(self._told("file").ha_dir / self.cluster_id)
            return
        async with self._reached(lock) as reached:
            yield reached.stores(self.cluster_id)

    @asynccontextmanager
    async def open(self, lock: str = "", *, as_named: bool = False) -> AsyncIterator[Stores]:
        """Opens the one cluster there is, or the named one; ``as_named``: also where the server does not say whether it is there.

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
    async def open_all(self, lock: str = "", *, as_named: bool = False) -> AsyncIterator[list[Stores]]:
        """Opens the named cluster, otherwise every one there is; ``as_named`` as in ``open``.

        Raises:
            NoCluster: there is none.
        """
        if self.on_this_machine:
            yield [_on_this_machine(home) for home in _homes(self._told("file").ha_dir, self.cluster_id)]
            return
        async with self._reached(lock) as reached:
            yield [reached.stores(each) for each in await self._clusters(reached, as_named=as_named)]

    def blobs(self, url: str, option: str, timeout: float = REQUEST) -> BlobStore:
        """The store behind ``url``, which was given as ``option``. ``timeout`` of a request, in seconds. Raises ``SettingsError``."""
        from understudy.supervisor.backends import ha_storage

        store = ha_storage(url, self.submit, timeout, option)
        if store is None:
            raise SettingsError("it is empty", where=option, remedy="Write it as understudy run was given it")
        return store

    def _told(self, lock: str) -> ServicesSettings:
        from understudy.services.plugin import ServicesSettings

        return ServicesSettings(
            cluster=self.cluster_id,
            lock=lock,
            request_timeout=REQUEST,
            ha_dir=(self.ha_dir or default_ha_dir()).absolute(),
            address=self.ha_address,
            namespace=self.namespace,
            context=self.context,
            submit=self.submit,
        )

    @asynccontextmanager
    async def _reached(self, lock: str) -> AsyncIterator[_Reached]:
        from understudy.services import registry

        if self.cluster_id:
            check_id(self.cluster_id, "--cluster-id")
        chosen = registry.choose(self.services, lock)
        services = await registry.connect(chosen.name, self._told(chosen.lock))
        try:
            yield _Reached(services, chosen.lock)
        finally:
            await services.close()

    async def _clusters(self, reached: _Reached, *, as_named: bool) -> list[str]:
        """The named cluster id, if it is there, else all there are."""
        from understudy.services import registry

        place = reached.services.place
        if self.cluster_id:
            try:
                there = await reached.is_there(self.cluster_id)
            except (AccessDenied, ServerUnreachable):
                if not as_named:
                    raise
                there = True
            if there:
                return [self.cluster_id]
        try:
            known = await registry.clusters(self.services, self._told(reached.lock_kind))
        except AccessDenied:
            if not self.cluster_id:
                raise
            known = []  # without the right to list, a mistyped id is still the likeliest reason
        if self.cluster_id or not known:
            option = "--namespace" if self.in_kubernetes else "--ha-address"
            raise NoCluster(
                f"no cluster {self.cluster_id!r} {place}" if self.cluster_id else f"no cluster {place}",
                where="--cluster-id" if self.cluster_id else option,
                remedy=f"There is {', '.join(known)}"
                if known
                else f"Give the {option} and the --cluster-id of the job",
            )
        return known


@dataclass(frozen=True, slots=True)
class _Reached:
    """Services that are open, with locks of ``lock_kind``."""

    services: HighAvailabilityServices
    lock_kind: str

    @property
    def api(self) -> ApiServer | None:
        from understudy.services.kubernetes import KubernetesServices

        return self.services.api if isinstance(self.services, KubernetesServices) else None

    def stores(self, cluster: str) -> Stores:
        services = self.services
        return Stores(cluster, services.documents, services.lock, services.place, self.lock_kind, api=self.api)

    async def is_there(self, cluster: str) -> bool:
        """Whether a replica has been there; in a Kubernetes cluster, whether the object is there, be it empty. Raises what ``read`` raises."""
        name = replicas_of(cluster)
        if self.api is not None:
            from understudy.documents.kubernetes import KubernetesDocumentStore

            return await KubernetesDocumentStore(self.api).is_there(name)
        try:
            return await self.services.documents.read(name) is not None
        except DocumentUnreadable:
            return True


def _typed(value: Path | str | None, variable: str) -> bool:
    """Whether ``value`` is given, and not the environment's."""
    if not value:
        return False
    told = os.environ.get(variable)
    return not told or type(value)(told) != value


def _on_this_machine(home: Path) -> Stores:
    from understudy.documents.filesystem import FilesystemDocumentStore

    store = FilesystemDocumentStore(home / "documents", REQUEST)
    return Stores(home.name, store, store, f"below {home.parent}", home=home)


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
