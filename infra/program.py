"""One stack: everything of one job that exists in the cluster, and nothing that runs by itself."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from infra.components.access import Access
from infra.components.buckets import check_sdk
from infra.components.ha_state import HaState, keeping_provider
from infra.components.monitoring import Monitoring
from infra.components.network import Network
from infra.components.object_store import ObjectStore
from infra.components.workload import Workload
from infra.config import given
from infra.manifests.command import HA_DIRECTORY, url
from infra.manifests.ha import ha_objects, persistent_volume_claims
from infra.settings import Settings, settings_from
from understudy.errors import UnderstudyError
from understudy.protocol.names import CLUSTER_LABEL


def main() -> None:
    """Raises ``pulumi.RunError``, which the engine prints as one line, before anything is registered."""
    try:
        settings = settings_from(given())
        check_sdk(settings)
    except UnderstudyError as error:
        raise pulumi.RunError(str(error)) from None
    build(settings)


def build(settings: Settings) -> None:
    provider = kubernetes.Provider("cluster", context=settings.context or None, enable_server_side_apply=True)
    state = HaState(settings, keeping_provider(settings))
    here = pulumi.ResourceOptions(provider=provider, depends_on=state.namespace)
    access = Access(settings, here)
    state.keep(after=access.ready)
    network = Network(settings, here)
    store = ObjectStore(settings, here)
    if not settings.protection.purge:  # nothing may write, or fail to come up, while data is let go
        Workload(settings, store.endpoint, here, [*state.ready, *access.ready, *network.ready, *store.ready])
        Monitoring(settings, here)
    cluster = settings.job.cluster
    pulumi.export("namespace", settings.namespace)
    pulumi.export("workload", f"{settings.resources.workload.lower()}/{cluster}")
    pulumi.export(
        "haObjects",
        [
            f"{each['kind']}/{each['metadata']['name']}".lower()
            for each in [*ha_objects(settings), *persistent_volume_claims(settings)]
        ],
    )
    pulumi.export("checkpoints", url(settings, "checkpoints"))
    pulumi.export("bucketEndpoint", store.endpoint or "AWS")
    at = f" --context {settings.context}" if settings.context else ""
    pulumi.export("status", _status(settings, at))
    pulumi.export("logs", f"kubectl{at} -n {settings.namespace} logs -l {CLUSTER_LABEL}={cluster} -f")


def _status(settings: Settings, at: str) -> str:
    """A command line. In the API server documents are read from here; elsewhere in a pod, which knows where they are."""
    status = f"understudy status --cluster-id {settings.job.cluster}"
    if settings.in_api_server:
        lock = "" if settings.run.lock in {"", "lease"} else f" --lock {settings.run.lock}"
        return f"{status} --namespace {settings.namespace}{at}{lock}"
    inside = f"kubectl{at} -n {settings.namespace} exec"
    if settings.on_volume:
        return f"{inside} statefulset/{settings.job.cluster} -- {status} --ha-dir {HA_DIRECTORY}"
    pod = (
        f"$(kubectl{at} -n {settings.namespace} get pods -l {CLUSTER_LABEL}={settings.job.cluster}"
        " --field-selector status.phase=Running -o name | tail -n 1)"  # of those that have ended none can be asked
    )
    return f"{inside} {pod} -- {status}"
