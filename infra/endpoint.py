"""Where the object store is that charts/object-store makes."""

from __future__ import annotations

from infra.settings import Settings


def included_name(settings: Settings) -> str:
    """Of the chart's release and of its Service."""
    return f"{settings.job.cluster}-objects"


def endpoint_of(settings: Settings) -> str:
    """The S3 server's URL; empty for AWS."""
    if settings.bucket.kind == "incluster":
        return f"http://{included_name(settings)}.{settings.namespace}.svc:7070"
    return settings.bucket.endpoint
