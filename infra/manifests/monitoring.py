"""What watches."""

from __future__ import annotations

from infra.manifests.base import Manifest, manifest
from infra.settings import Run, Settings
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
    relabelings = [named, ends]
    if not _rehearses(settings.run):
        relabelings.append({"targetLabel": "standby", "replacement": "none"})  # none that rehearses is missed
    scraped = {"port": "probes", "path": "/metrics", "interval": "15s", "relabelings": relabelings}
    spec = {
        "selector": {"matchLabels": {CLUSTER_LABEL: settings.job.cluster}},
        "podMetricsEndpoints": [scraped],
    }
    monitor = manifest(settings, "monitoring.coreos.com/v1", "PodMonitor", settings.job.cluster, spec=spec)
    monitor["metadata"]["labels"] |= settings.monitoring.labels
    return monitor


def _rehearses(run: Run) -> bool:
    """Whether there is a standby that can."""
    without_executors = run.mode == "native" and not run.standby.executors
    return run.replicas > 1 and run.rehearsal.mode != "off" and not without_executors


def monitoring_name(settings: Settings) -> str:
    """Of the chart's release."""
    return f"{settings.job.cluster}-monitoring"


def monitoring_values(settings: Settings) -> Manifest:
    """What charts/monitoring is told: the operator finds rules by the labels by which it finds monitors."""
    return {"rules": {"labels": dict(settings.monitoring.labels)}}
