"""All objects of a stack, in an order in which they can be applied."""

from __future__ import annotations

from infra.manifests.access import access
from infra.manifests.base import Manifest
from infra.manifests.declared_state import declared_state
from infra.manifests.ha import ha_objects, namespace, owners, persistent_volume_claims
from infra.manifests.monitoring import pod_monitor
from infra.manifests.network import flow_schema, policies
from infra.manifests.object_store import key_secret
from infra.manifests.workload import budget, script_map, workload
from infra.settings import Settings


def kept_objects(settings: Settings) -> list[Manifest]:
    """What holds data, or holds what holds data."""
    created = [namespace(settings)] if settings.create_namespace else []
    return [*created, *ha_objects(settings), *persistent_volume_claims(settings)]


def passing_objects(settings: Settings, endpoint: str, *, applied: bool = False) -> list[Manifest]:
    """What can be made again from the settings alone. ``endpoint``: the S3 server's URL; empty for AWS.

    ``applied``: by another tool than Pulumi.
    """
    found = [*access(settings), *owners(settings), *policies(settings), flow_schema(settings)]
    found += [key_secret(settings)]
    if not settings.protection.purge:  # nothing runs while data is let go
        state = declared_state(settings, applied=applied)
        first, last = (None, state) if settings.run.state == "running" else (state, None)
        found += [script_map(settings), first, budget(settings), workload(settings, endpoint), last]
        found += [pod_monitor(settings)]
    return [each for each in found if each is not None]
