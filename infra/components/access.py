"""Service accounts and what they may do, and whose the documents are. All of it is refused where it exists already."""

from __future__ import annotations

import pulumi

from infra.components.kinds import declare
from infra.manifests.access import access
from infra.manifests.ha import owners
from infra.settings import Settings


class Access(pulumi.ComponentResource):
    def __init__(self, settings: Settings, options: pulumi.ResourceOptions) -> None:
        super().__init__("understudy:infra:Access", settings.job.cluster)
        own = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(parent=self))
        self.ready: list[pulumi.Resource] = [declare(each, own) for each in [*access(settings), *owners(settings)]]
        self.register_outputs({})
