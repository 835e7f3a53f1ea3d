"""The bucket and the Secret with its keys."""

from __future__ import annotations

import pulumi

from infra.components.buckets import AwsBucket, Bucket, ExistingBucket, IncludedBucket
from infra.components.kinds import declare
from infra.manifests.object_store import endpoint_of, key_secret
from infra.settings import Settings


class ObjectStore(pulumi.ComponentResource):
    def __init__(self, settings: Settings, options: pulumi.ResourceOptions) -> None:
        super().__init__("understudy:infra:ObjectStore", settings.job.cluster)
        own = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(parent=self))
        self.ready: list[pulumi.Resource] = []
        secret = key_secret(settings)
        if secret is not None:
            self.ready.append(declare(secret, own))  # the SDK marks what a Secret holds as secret
        depending = pulumi.ResourceOptions.merge(own, pulumi.ResourceOptions(depends_on=self.ready))
        self.bucket = self._bucket(settings, depending)
        self.ready += self.bucket.ready
        self.endpoint = endpoint_of(settings)
        self.register_outputs({"bucket": settings.bucket.name, "endpoint": self.endpoint})

    def _bucket(self, settings: Settings, options: pulumi.ResourceOptions) -> Bucket:
        match settings.bucket.kind:
            case "aws":
                return AwsBucket(settings, self)
            case "incluster" if not settings.protection.purge:
                return IncludedBucket(settings, options)
            case _:
                return ExistingBucket()
