"""What watches: a PodMonitor, and the dashboards and rules of charts/monitoring."""

from __future__ import annotations

import pulumi
from pulumi_kubernetes import helm

from infra.components.kinds import declare
from infra.manifests.monitoring import monitoring_name, monitoring_values, pod_monitor
from infra.schema import PROJECT
from infra.settings import Settings


class Monitoring(pulumi.ComponentResource):
    def __init__(self, settings: Settings, options: pulumi.ResourceOptions) -> None:
        super().__init__("understudy:infra:Monitoring", settings.job.cluster)
        own = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(parent=self))
        monitor = pod_monitor(settings)
        if monitor is not None:
            declare(monitor, own)
        if settings.monitoring.chart:
            helm.v4.Chart(
                monitoring_name(settings),
                chart=str(PROJECT / "charts" / "monitoring"),
                namespace=settings.namespace,
                values=monitoring_values(settings),
                opts=own,
            )
        self.register_outputs({})
