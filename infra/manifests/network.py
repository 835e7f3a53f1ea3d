"""Who may talk to replicas and their executors, and how the API server treats their renewals."""

from __future__ import annotations

from infra.manifests.access import account_name
from infra.manifests.base import NAMESPACE_LABEL, PROBES, Manifest, labels, lint_exempt, manifest
from infra.manifests.declared_state import ensures
from infra.manifests.ensemble import ensemble_egress
from infra.manifests.ha import included_name
from infra.settings import Settings
from understudy.protocol.names import CLUSTER_LABEL, EXECUTOR_OF_LABEL


def policies(settings: Settings) -> list[Manifest]:
    """Probes come from the node and are let in by every network plugin. Whether policies are enforced is the plugin's affair.

    In standalone mode executors are anywhere and call their driver, so nothing is kept out.
    """
    if not settings.network.policies:
        return []
    return [*_of_replicas(settings), *_of_declared_state(settings)]


def _of_declared_state(settings: Settings) -> list[Manifest]:
    """It serves nothing, and talks to what keeps the documents only."""
    if not settings.run.state:
        return []
    pods: Manifest = {"podSelector": {"matchLabels": ensures(settings)}}
    return [_policy(settings, f"{settings.job.cluster}-state", pods, [], [pods])]


def _of_replicas(settings: Settings) -> list[Manifest]:
    cluster, native = settings.job.cluster, settings.run.mode == "native"
    replicas: Manifest = {"podSelector": {"matchLabels": {CLUSTER_LABEL: cluster}}}
    if settings.run.mode == "standalone":
        return [_policy(settings, cluster, replicas, None, [replicas])] if settings.network.egress else []
    executors: Manifest = {"podSelector": {"matchLabels": {EXECUTOR_OF_LABEL: cluster}}}
    own = [replicas, executors] if native else [replicas]
    into_replicas: list[Manifest] = [{"from": [executors]}] if native else []
    if settings.network.metrics_from:
        scraper = {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: settings.network.metrics_from}}}
        into_replicas.append({"from": [scraper], "ports": [{"protocol": "TCP", "port": PROBES}]})
    ours = _policy(settings, cluster, replicas, into_replicas, own)
    if not native:
        return [ours]
    theirs = _policy(settings, f"{cluster}-executors", executors, [{"from": own}], own)
    return [lint_exempt(ours, _NO_PEERS), lint_exempt(theirs, {"dangling-networkpolicy": _MADE_BY_SPARK, **_NO_PEERS})]


_MADE_BY_SPARK = "Spark makes the executors' pods, and their labels are the supervisor's."
_NO_PEERS = {"dangling-networkpolicypeer-podselector": _MADE_BY_SPARK}


def _policy(
    settings: Settings, name: str, on: Manifest, ingress: list[Manifest] | None, own: list[Manifest]
) -> Manifest:
    """``ingress``: None lets everything in. ``own``: this job's pods, which may always be reached."""
    # An empty list says the same as none, but the API server stores none, and would see a change in every apply.
    spec: Manifest = {**on, "policyTypes": [] if ingress is None else ["Ingress"]}
    if ingress:
        spec["ingress"] = ingress
    if settings.network.egress:
        names = {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: "kube-system"}}}
        spec["policyTypes"].append("Egress")
        store: Manifest = {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": included_name(settings)}}}
        spec["egress"] = [
            {"to": [*own, store] if settings.bucket.kind == "incluster" else own},
            {"to": [names], "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
            {"to": [{"ipBlock": {"cidr": cidr}} for cidr in settings.network.egress]},
            *ensemble_egress(settings),
        ]
    return manifest(settings, "networking.k8s.io/v1", "NetworkPolicy", name, spec=spec)


def flow_schema(settings: Settings) -> Manifest | None:
    """Renewals among the API server's leader elections, as its own controllers' are: a busy server still answers them.

    Before the built-in rule for service accounts (9000). A cluster-wide object, so its name tells namespaces apart.
    """
    if not settings.account.flow_schema:
        return None
    account = {"name": account_name(settings), "namespace": settings.namespace}
    lock = {
        "verbs": ["get", "patch"],
        "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["configmaps", "leases"],
        "namespaces": [settings.namespace],
    }
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": f"understudy-{settings.namespace}.{settings.job.cluster}", "labels": labels(settings)},
        "spec": {
            "priorityLevelConfiguration": {"name": "leader-election"},
            "matchingPrecedence": 800,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                    "resourceRules": [lock],
                }
            ],
        },
    }
