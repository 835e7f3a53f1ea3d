"""What watches."""

from __future__ import annotations

from infra.manifests.base import Manifest, manifest
from infra.settings import Settings
from understudy.protocol.names import CLUSTER_LABEL


def pod_monitor(settings: Settings) -> Manifest | None:
    """For the Prometheus operator. Of pods and not of a Service: each replica says how it stands with itself."""
    if not settings.monitoring.pod_monitor:
        return None
    # charts/monitoring tells jobs apart by this label: two of them may share a namespace.
    named = {"targetLabel": "cluster_id", "replacement": settings.job.cluster}
    # And those of a Job, whose end is no failure.
    ends = {
        "sourceLabels": ["__meta_kubernetes_pod_controller_kind"],
        "regex": "Job",
        "targetLabel": "workload",
        "replacement": "Job",  # the default is the first group of the expression, which has none
    }
    scraped = {"port": "probes", "path": "/metrics", "interval": "15s", "relabelings": [named, ends]}
    spec = {
        "selector": {"matchLabels": {CLUSTER_LABEL: settings.job.cluster}},
        "podMetricsEndpoints": [scraped],
    }
    monitor = manifest(settings, "monitoring.coreos.com/v1", "PodMonitor", settings.job.cluster, spec=spec)
    monitor["metadata"]["labels"] |= settings.monitoring.labels
    return monitor


def monitoring_name(settings: Settings) -> str:
    """Of the chart's release."""
    return f"{settings.job.cluster}-monitoring"


def monitoring_values(settings: Settings) -> Manifest:
    """What charts/monitoring is told: the operator finds rules by the labels by which it finds monitors."""
    return {"rules": {"labels": dict(settings.monitoring.labels)}}
