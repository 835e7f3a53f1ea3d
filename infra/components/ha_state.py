"""Objects that hold what drivers wrote. They outlive the stack, and the next one finds them as they were."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from infra.components.kinds import declare
from infra.manifests.base import annotated
from infra.manifests.ha import ha_objects, namespace, persistent_volume_claims
from infra.settings import Settings
from understudy.protocol.names import FIELD_MANAGER

#: The field manager of what this program declares. A fixed one: without it each adoption leaves another co-owner behind.
MANAGER = {"pulumi.com/patchFieldManager": FIELD_MANAGER}


def keeping_provider(settings: Settings) -> kubernetes.Provider:
    """Adopts what is there, in place of refusing it, and never replaces a ConfigMap because of its content."""
    return kubernetes.Provider(
        "keeping",
        context=settings.context or None,
        enable_server_side_apply=True,
        upsert_existing_objects=True,
        enable_config_map_mutable=True,
    )


def kept(settings: Settings) -> pulumi.ResourceOptions:
    """What destroy leaves behind, and so does a change that no longer declares it.

    Not protected: that would keep nothing that is not kept anyway, and refuse the change.
    """
    return pulumi.ResourceOptions(retain_on_delete=settings.keeps)


def written_by_drivers() -> pulumi.ResourceOptions:
    """What they write is not compared, and a refresh, which reads it, keeps it encrypted: it is none of the stack's business.

    A Lease's annotations and its spec are their record, too.
    """
    return pulumi.ResourceOptions(
        ignore_changes=["data", "binaryData"],
        additional_secret_outputs=["data", "binaryData", "spec", "metadata"],
    )


class HaState(pulumi.ComponentResource):
    """``namespace``: the one that is made here, if any. ``ready``: everything that a driver expects to find, once it is kept."""

    def __init__(self, settings: Settings, provider: kubernetes.Provider) -> None:
        super().__init__("understudy:infra:HaState", settings.job.cluster)
        self._settings = settings
        self._own = own = pulumi.ResourceOptions(parent=self, provider=provider)
        self.namespace: list[pulumi.Resource] = []
        if settings.create_namespace:
            # Deleting it would delete everything in it, and some of that may be others'.
            options = pulumi.ResourceOptions.merge(own, pulumi.ResourceOptions(retain_on_delete=True))
            self.namespace.append(declare(annotated(namespace(settings), MANAGER), options))
        self.ready: list[pulumi.Resource] = [*self.namespace]

    def keep(self, after: list[pulumi.Resource]) -> None:
        """``after``: what is refused where it exists already. Another stack with the same cluster id, or with other ids that make the same
        name, fails there; had it adopted what is here before that, its destroy or purge would take it from the job that lives.
        """
        settings = self._settings
        waits = pulumi.ResourceOptions(depends_on=[*self.namespace, *after])
        own = pulumi.ResourceOptions.merge(self._own, waits)
        stays = pulumi.ResourceOptions.merge(own, kept(settings))
        written = pulumi.ResourceOptions.merge(stays, written_by_drivers())
        objects = [declare(annotated(each, MANAGER), written) for each in ha_objects(settings)]
        volumes = [declare(annotated(each, MANAGER), stays) for each in persistent_volume_claims(settings)]
        self.ready += [*objects, *volumes]
        self.register_outputs({"names": [each["metadata"]["name"] for each in ha_objects(settings)]})
