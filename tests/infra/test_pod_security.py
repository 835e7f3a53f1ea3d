"""Rules that cannot fail prove nothing: each of *restricted* is broken once."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from infra.manifests.workload import workload
from infra.settings import settings_from
from testkit.bundle import LEAST
from tests.infra.pod_security import violations

PORT = {"containerPort": 1, "hostPort": 1}
#: Where, what is said there in place of what the builders say, and the rule it breaks.
BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("pod", {"hostNetwork": True}, "hostNetwork"),
    ("pod", {"hostPID": True}, "hostPID"),
    ("pod", {"hostIPC": True}, "hostIPC"),
    ("pod", {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "volume a"),
    ("pod", {"volumes": [{"name": "b", "nfs": {"server": "b", "path": "/"}}]}, "volume b"),
    ("pod", {"initContainers": [{"name": "bare"}]}, "allowPrivilegeEscalation"),
    ("pod's context", {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}, "sysctl kernel.msgmax"),
    ("pod's context", {"runAsUser": 0}, "runAsUser"),
    ("pod's context", {"runAsNonRoot": False}, "runAsNonRoot"),
    ("pod's context", {"seccompProfile": {}}, "seccompProfile"),
    ("pod's context", {"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
    ("pod's context", {"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile"),
    ("pod's context", {"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions"),
    ("pod's context", {"seLinuxOptions": {"role": "r"}}, "seLinuxOptions"),
    ("pod's context", {"windowsOptions": {"hostProcess": True}}, "hostProcess"),
    ("container", {"securityContext": {}}, "capabilities.drop"),
    ("container", {"ports": [PORT]}, "hostPort"),
    ("container", {"livenessProbe": {"httpGet": {"port": 1, "host": "a"}}}, "host of a probe or hook"),
    ("container", {"lifecycle": {"preStop": {"tcpSocket": {"port": 1, "host": "a"}}}}, "host of a probe or hook"),
    ("container's context", {"privileged": True}, "privileged"),
    ("container's context", {"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
    ("container's context", {"capabilities": {"drop": ["NET_RAW"]}}, "capabilities.drop"),
    ("container's context", {"capabilities": {"drop": ["ALL"], "add": ["SYS_TIME"]}}, "capabilities.add"),
    ("container's context", {"procMount": "Unmasked"}, "procMount"),
    ("container's context", {"runAsNonRoot": False}, "runAsNonRoot"),
    ("container's context", {"runAsUser": 0}, "runAsUser"),
]


@pytest.mark.parametrize(("where", "said", "rule"), BROKEN, ids=[f"{where}: {said}" for where, said, _ in BROKEN])
def test_a_pod_that_is_not_restricted_is_seen(where: str, said: dict[str, Any], rule: str) -> None:
    pod = copy.deepcopy(workload(settings_from(LEAST), "")["spec"]["template"]["spec"])
    container = pod["containers"][0]
    assert violations(pod) == []

    places = {
        "pod": pod,
        "pod's context": pod["securityContext"],
        "container": container,
        "container's context": container["securityContext"],
    }
    places[where].update(said)

    assert rule in violations(pod)
