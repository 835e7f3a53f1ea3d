"""What runs: replicas, their script, their budget, and what brings the job to its declared state."""

from __future__ import annotations

import math

import pulumi

from infra.components.kinds import declare
from infra.manifests.declared_state import declared_state
from infra.manifests.workload import budget, script_map, workload
from infra.settings import Settings
from understudy.supervisor.health import FIRST_REHEARSAL_WITHIN

#: What a new pod may take from its scheduling to its first rehearsal's begin, in seconds; an image is pulled once per node.
_STARTS_WITHIN = 60.0


class Workload(pulumi.ComponentResource):
    """``endpoint``: the S3 server's URL; empty for AWS. ``after``: what its pods need to find."""

    def __init__(
        self, settings: Settings, endpoint: str, options: pulumi.ResourceOptions, after: list[pulumi.Resource]
    ) -> None:
        super().__init__("understudy:infra:Workload", settings.job.cluster)
        own = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(parent=self, depends_on=after))
        state = declared_state(settings)
        if state is not None and settings.run.state == "suspended":
            # No new replica takes over a job that is to stand still.
            after = [*after, declare(state, pulumi.ResourceOptions.merge(own, _once()))]
            own = pulumi.ResourceOptions.merge(own, pulumi.ResourceOptions(depends_on=after))
        script = script_map(settings)
        if script is not None:
            # The old revision's script goes after its last pod.
            map_ = declare(script, own)
            own = pulumi.ResourceOptions.merge(own, pulumi.ResourceOptions(depends_on=[*after, map_]))
        limit = budget(settings)
        if limit is not None:
            declare(limit, own)
        options = pulumi.ResourceOptions.merge(own, _replaced(settings))
        declare(workload(settings, endpoint), pulumi.ResourceOptions.merge(options, _in_time(settings)))
        if state is not None and settings.run.state == "running":
            # Beside the replicas: those of a job that has FAILED do not become ready before it may run again.
            declare(state, pulumi.ResourceOptions.merge(own, _once()))
        self.register_outputs({})


def _once() -> pulumi.ResourceOptions:
    """A Job that has done its work stays as it was, although other settings change. One that has failed is replaced, and gets the present spec: the engine
    ignores changes of what it keeps, not of what it makes again.
    """
    return pulumi.ResourceOptions(ignore_changes=["spec"])


def _replaced(settings: Settings) -> pulumi.ResourceOptions | None:
    """A Job cannot be changed. Another one comes after it: two at once would be two runs, and the second is refused."""
    if settings.resources.workload != "Job":
        return None
    return pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)


def _in_time(settings: Settings) -> pulumi.ResourceOptions:
    """Replicas are replaced one after the other, and one that cannot rehearse is ready when it has tried long enough. Ten minutes at least,
    which is what the provider allows for all of them.
    """
    minutes = max(10, math.ceil(settings.run.replicas * (FIRST_REHEARSAL_WITHIN + _STARTS_WITHIN) / 60))
    return pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=f"{minutes}m", update=f"{minutes}m"))
