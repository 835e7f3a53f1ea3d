"""Who may talk to whom."""

from __future__ import annotations

import pulumi

from infra.components.kinds import declare
from infra.manifests.network import flow_schema, policies
from infra.settings import Settings


class Network(pulumi.ComponentResource):
    def __init__(self, settings: Settings, options: pulumi.ResourceOptions) -> None:
        super().__init__("understudy:infra:Network", settings.job.cluster)
        own = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(parent=self))
        schema = flow_schema(settings)
        self.ready: list[pulumi.Resource] = [
            declare(each, own) for each in [*policies(settings), *([schema] if schema else [])]
        ]
        self.register_outputs({})
