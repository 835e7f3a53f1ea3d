"""The Secret with a bucket's keys."""

from __future__ import annotations

from infra.manifests.base import Manifest, made
from infra.manifests.command import bucket_secret
from infra.settings import Settings


def key_secret(settings: Settings) -> Manifest | None:
    """Only where keys are given and no Secret."""
    bucket = settings.bucket
    if not bucket.access_key:
        return None
    values = dict(zip(bucket.key_variables, (bucket.access_key, bucket.secret_key), strict=True))
    return made(settings, "v1", "Secret", bucket_secret(settings), type="Opaque", stringData=values)
