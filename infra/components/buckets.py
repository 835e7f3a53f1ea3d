"""Where checkpoints are: a bucket that is there, or one that is made here.

One that is made in a cloud has versions, no public access, and nothing expires but what rehearsals left. The one in the cluster is for
development, and has none of that.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Protocol

import pulumi
from pulumi_kubernetes import helm

from infra.components.ha_state import kept
from infra.manifests.ha import included_name
from infra.manifests.object_store import included_values
from infra.schema import PROJECT
from infra.settings import Settings
from understudy.errors import EnvironmentProblem


def check_sdk(settings: Settings) -> None:
    """Raises ``EnvironmentProblem`` where the SDK that makes the bucket is missing."""
    if settings.bucket.kind == "aws" and find_spec("pulumi_aws") is None:
        raise EnvironmentProblem(
            "needs the package pulumi-aws",
            where="understudy:bucketKind aws",
            remedy=".venv-infra/bin/pip install -r infra/requirements-aws.txt",
        )


class Bucket(Protocol):
    """``ready``: what a driver waits for."""

    ready: list[pulumi.Resource]


class ExistingBucket:
    def __init__(self) -> None:
        self.ready: list[pulumi.Resource] = []


class AwsBucket:
    """In the account and region of the AWS provider, whose SDK is an extra (requirements-aws.txt)."""

    def __init__(self, settings: Settings, parent: pulumi.Resource) -> None:
        import pulumi_aws as aws
        from pulumi_aws import s3

        name = settings.bucket.name
        # Where drivers look for it, even if the account's settings name another region.
        provider = aws.Provider("bucket", region=settings.bucket.region, opts=pulumi.ResourceOptions(parent=parent))
        # What guards the bucket stays as long as it does. In production the engine refuses to replace it, too: another name or region
        # would be an empty bucket.
        guarded = pulumi.ResourceOptions(protect=settings.keeps and settings.protection.production)
        own = pulumi.ResourceOptions(parent=parent, provider=provider)
        for options in (kept(settings), guarded):
            own = pulumi.ResourceOptions.merge(own, options)
        bucket = s3.Bucket(name, bucket=name, force_destroy=settings.protection.purge, opts=own)
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
    """Rules of expiry by prefix: rehearsals' scratch and unfinished uploads. Never checkpoints or results."""
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
