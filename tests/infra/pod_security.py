"""The rules of Pod Security *restricted*, baseline's among them, as Kubernetes 1.36 documents them for Linux.

Written from the documentation and not from the builders: what they set is judged by what it would be refused for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Spec = Mapping[str, Any]

_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_PROFILES = {"RuntimeDefault", "Localhost"}


def violations(pod: Spec) -> list[str]:
    """What a namespace that enforces *restricted* would refuse this pod for; nothing, if it takes it."""
    return [*_of_pod(pod), *(found for container in _containers(pod) for found in _of_container(pod, container))]


def _containers(pod: Spec) -> list[Spec]:
    return [each for kind in ("initContainers", "containers", "ephemeralContainers") for each in pod.get(kind, [])]


def _of_pod(pod: Spec) -> Iterator[str]:
    context = pod.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field, False):
            yield field
    for volume in pod.get("volumes", []):
        if not (volume.keys() - {"name"}) <= _VOLUMES:
            yield f"volume {volume['name']}"
    for each in context.get("sysctls", []):
        if each["name"] not in _SAFE_SYSCTLS:
            yield f"sysctl {each['name']}"
    yield from _of_either(context)


def _of_container(pod: Spec, container: Spec) -> Iterator[str]:
    context, around = container.get("securityContext", {}), pod.get("securityContext", {})
    if context.get("privileged", False):
        yield "privileged"
    if context.get("allowPrivilegeEscalation", True):
        yield "allowPrivilegeEscalation"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "capabilities.drop"
    if not set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"}:
        yield "capabilities.add"
    if context.get("procMount", "Default") != "Default":
        yield "procMount"
    if any(port.get("hostPort", 0) for port in container.get("ports", [])):
        yield "hostPort"
    if any("host" in handler for handler in _handlers(container)):
        yield "host of a probe or hook"
    if not context.get("runAsNonRoot", around.get("runAsNonRoot", False)):
        yield "runAsNonRoot"
    if "type" not in context.get("seccompProfile", around.get("seccompProfile", {})):
        yield "seccompProfile"
    yield from _of_either(context)


def _of_either(context: Spec) -> Iterator[str]:
    """What pods and containers may both say, and neither may say wrongly."""
    if context.get("runAsNonRoot") is False:
        yield "runAsNonRoot"
    if context.get("runAsUser") == 0:
        yield "runAsUser"
    if context.get("windowsOptions", {}).get("hostProcess", False):
        yield "hostProcess"
    for field in ("seccompProfile", "appArmorProfile"):
        if context.get(field, {}).get("type", "RuntimeDefault") not in _PROFILES:
            yield field
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in _SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield "seLinuxOptions"


def _handlers(container: Spec) -> Iterator[Spec]:
    probes = [container.get(f"{kind}Probe", {}) for kind in ("liveness", "readiness", "startup")]
    hooks = [container.get("lifecycle", {}).get(when, {}) for when in ("postStart", "preStop")]
    for each in [*probes, *hooks]:
        for kind in ("httpGet", "tcpSocket"):
            yield each.get(kind, {})
