"""What pods are given for an ensemble of ZooKeeper: its address, the files that this names, and the way there."""

from __future__ import annotations

import ipaddress
import re

from infra.ensemble import HA_FILES, place_in
from infra.manifests.base import NAMESPACE_LABEL, Manifest, literal
from infra.settings import Settings
from understudy.addresses import split

_VOLUME = "ha"
#: A name of the cluster's own DNS: a Service's, or that of a pod behind one.
_IN_CLUSTER = re.compile(r"(?:[a-z0-9-]+\.)+(?P<namespace>[a-z0-9-]+)\.svc(?:\.cluster\.local)?\.?")


def ensemble_environment(settings: Settings) -> list[Manifest]:
    """Variables in place of options: so each command that is run in the pod looks where the replica does."""
    if not settings.in_zookeeper:
        return []
    return [
        {"name": "UNDERSTUDY_HA", "value": settings.ha.services},
        {"name": "UNDERSTUDY_HA_ADDRESS", "value": literal(settings.ha.address)},
    ]


def ensemble_mounts(settings: Settings) -> list[Manifest]:
    return [{"name": _VOLUME, "mountPath": HA_FILES, "readOnly": True}] if settings.ha.secret else []


def ensemble_volumes(settings: Settings) -> list[Manifest]:
    """Readable by the pod's group alone, which its user is in."""
    if not settings.ha.secret:
        return []
    return [{"name": _VOLUME, "secret": {"secretName": settings.ha.secret, "defaultMode": 0o440}}]


def ensemble_egress(settings: Settings) -> list[Manifest]:
    """Rules of a NetworkPolicy: to the servers' ports only, and to what their names tell of where they are.

    A name of the cluster's DNS tells the namespace. Of any other name a policy cannot know the addresses.
    """
    if not settings.in_zookeeper:
        return []
    peers: dict[int, list[Manifest | None]] = {}
    for host, port in map(split, place_in(settings.ha).hosts):
        known = peers.setdefault(port, [])
        if (peer := _peer(host, settings.namespace)) not in known:
            known.append(peer)
    return [
        {**({} if None in known else {"to": known}), "ports": [{"protocol": "TCP", "port": port}]}
        for port, known in peers.items()
    ]


def _peer(host: str, own: str) -> Manifest | None:
    """``None`` for what may be anywhere. ``own``: the namespace that a name without dots is in."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return {"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}
    found = _IN_CLUSTER.fullmatch(host)
    if "." in host and found is None:
        return None
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: own if found is None else found["namespace"]}}}
