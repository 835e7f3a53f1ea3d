"""The object store: where it is, the Secret with its keys, and what charts/object-store is told where it is made along."""

from __future__ import annotations

from typing import Any

from infra.manifests.base import Manifest, manifest
from infra.manifests.command import bucket_secret
from infra.manifests.ha import included_name
from infra.settings import Settings


def endpoint_of(settings: Settings) -> str:
    """The S3 server's URL; empty for AWS."""
    if settings.bucket.kind == "incluster":
        return f"http://{included_name(settings)}.{settings.namespace}.svc:7070"
    return settings.bucket.endpoint


def included_values(settings: Settings) -> dict[str, Any]:
    bucket = settings.bucket
    values: dict[str, Any] = {
        "fullnameOverride": included_name(settings),
        "buckets": [bucket.name],
        "region": bucket.region,
        "credentials": {"existingSecret": bucket_secret(settings)},
        "persistence": {"existingClaim": included_name(settings)},
    }
    if settings.run.mode == "standalone":  # executors are anywhere, and read and write as their driver does
        values["networkPolicy"] = {"enabled": False}
    if bucket.image:
        repository, _, tag = bucket.image.rpartition(":")
        values["image"] = {"repository": repository, "tag": tag, "pullPolicy": settings.job.pull_policy}
        values["imagePullSecrets"] = list(settings.job.pull_secrets)
    return values


def key_secret(settings: Settings) -> Manifest | None:
    """Only where keys are given and no Secret."""
    bucket = settings.bucket
    if not bucket.access_key:
        return None
    values = dict(zip(bucket.key_variables, (bucket.access_key, bucket.secret_key), strict=True))
    return manifest(settings, "v1", "Secret", bucket_secret(settings), type="Opaque", stringData=values)
