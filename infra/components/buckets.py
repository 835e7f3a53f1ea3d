"""Where checkpoints are: a bucket that is there, or one that is made here.

Whatever makes one keeps it: versions on, public access off, and nothing expires but what rehearsals left.
"""

from __future__ import annotations

from typing import Protocol

import pulumi
from pulumi_kubernetes import helm

from infra.components.ha_state import kept
from infra.declared import PROJECT
from infra.endpoint import included_name, included_values
from infra.settings import Settings
from understudy.errors import EnvironmentProblem


class Bucket(Protocol):
    """``ready``: what a driver waits for."""

    ready: list[pulumi.Resource]


class ExistingBucket:
    def __init__(self) -> None:
        self.ready: list[pulumi.Resource] = []


class AwsBucket:
    """In the account and region of the AWS provider, whose SDK is an extra (requirements-aws.txt)."""

    def __init__(self, settings: Settings, parent: pulumi.Resource) -> None:
        try:
            from pulumi_aws import s3
        except ImportError:
            raise EnvironmentProblem(
                "needs the package pulumi-aws",
                where="understudy:bucketKind aws",
                remedy=".venv-infra/bin/pip install -r infra/requirements-aws.txt",
            ) from None
        name, own = settings.bucket.name, pulumi.ResourceOptions(parent=parent)
        bucket = s3.Bucket(
            name,
            bucket=name,
            force_destroy=settings.safety.purge,
            opts=pulumi.ResourceOptions.merge(own, kept(settings)),
        )
        # What guards the bucket stays as long as it does.
        own = pulumi.ResourceOptions.merge(own, kept(settings))
        versions = s3.BucketVersioning(
            name, bucket=bucket.bucket, versioning_configuration={"status": "Enabled"}, opts=own
        )
        shut = s3.BucketPublicAccessBlock(
            name,
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=own,
        )
        expiry = s3.BucketLifecycleConfiguration(name, bucket=bucket.bucket, rules=lifecycle(settings), opts=own)
        self.ready: list[pulumi.Resource] = [bucket, versions, shut, expiry]


class IncludedBucket:
    """charts/object-store in the stack's own namespace, for development and tests."""

    def __init__(self, settings: Settings, options: pulumi.ResourceOptions) -> None:
        chart = helm.v4.Chart(
            included_name(settings),
            chart=str(PROJECT / "charts" / "object-store"),
            namespace=settings.namespace,
            values=included_values(settings),
            opts=options,
        )
        self.ready: list[pulumi.Resource] = [chart]


def lifecycle(settings: Settings) -> list[dict[str, object]]:
    """Rules of expiry by prefix: rehearsals' scratch, and uploads that nobody finished. Never checkpoints or results."""
    return [
        {
            "id": "rehearsals",
            "status": "Enabled",
            "filter": {"prefix": f"{settings.bucket.prefix}/scratch/"},
            "expiration": {"days": settings.bucket.expire_days},
            "noncurrent_version_expiration": {"noncurrent_days": 1},
        },
        {
            "id": "unfinished-uploads",
            "status": "Enabled",
            "filter": {"prefix": ""},
            "abort_incomplete_multipart_upload": {"days_after_initiation": 7},
        },
    ]
