"""What a failed test leaves for its reader: events, logs and documents, under ``build/e2e/<test>/``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from pathlib import Path

from e2e.cluster.layout import REPOSITORY, Layout
from e2e.harness.kubectl import Cluster, Failed

DIRECTORY = REPOSITORY / "build" / "e2e"

#: What tests call their namespaces. Not all of them come from the fixture that knows those it has made.
_OURS = re.compile(r"e2e-[a-z0-9-]+-[0-9a-f]{4}")

#: Files of a namespace, and the question whose answer each holds. ConfigMaps and Leases are the documents.
_QUESTIONS = {
    "events.txt": ("get", "events", "--sort-by=.lastTimestamp", "--output=wide"),
    "pods.txt": ("get", "pods", "--output=wide"),
    "pods.yaml": ("get", "pods", "--output=yaml"),
    "documents.yaml": ("get", "configmaps,leases.coordination.k8s.io", "--output=yaml"),
    "workloads.yaml": (
        "get",
        "deployments,statefulsets,services,poddisruptionbudgets,persistentvolumeclaims",
        "--output=yaml",
    ),
}


def collect(cluster: Cluster, test: str, namespaces: Collection[str], *, others: bool = True) -> Path:
    """Of these namespaces, and of all ``others`` that are ours.

    Never raises for a cluster that does not answer: what it said instead is written down.
    """
    directory = DIRECTORY / re.sub(r"[^A-Za-z0-9_.-]+", "-", test).strip("-")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "nodes.txt").write_text(_ask(cluster, "get", "nodes", "--output=wide"))
    for namespace in (*namespaces, *(_others(cluster, namespaces) if others else ())):
        place = directory / namespace
        place.mkdir(exist_ok=True)
        for file, question in _QUESTIONS.items():
            (place / file).write_text(_ask(cluster, *question, "--namespace", namespace))
        _logs(cluster, namespace, place)
        _fence_logs(cluster, namespace, place)
    if cluster.local:
        state = Layout.default().state
        for log in state.glob("*/log/*.log"):
            (directory / f"{log.parent.parent.name}-{log.name}").write_bytes(log.read_bytes()[-200_000:])
    return directory


def _others(cluster: Cluster, known: Collection[str]) -> list[str]:
    found = _names(cluster, "namespaces", "--field-selector=status.phase=Active")
    return [name for name in found if _OURS.fullmatch(name) and name not in known]


def _fence_logs(cluster: Cluster, namespace: str, place: Path) -> None:
    """They lie in a volume that goes with its pod, and only a container that runs can be asked."""
    tail = "tail -n 1000 /var/lib/understudy/*/log/fence-*.jsonl"
    replicas = ("--selector=understudy.dev/cluster", "--field-selector=status.phase=Running")
    for pod in _names(cluster, "pods", "--namespace", namespace, *replicas):
        said = _ask(cluster, "exec", "--namespace", namespace, pod, "--", "sh", "-c", tail)
        (place / f"{pod}.fence.log").write_text(said)


def _names(cluster: Cluster, *of: str) -> list[str]:
    return [line.partition("/")[2] for line in _lines(cluster, "get", *of, "--output=name")]


def _logs(cluster: Cluster, namespace: str, place: Path) -> None:
    template = "{range .items[*]}{range .spec.containers[*]}{@.name}{' '}{end}{.metadata.name}{'\\n'}{end}"
    for line in _lines(cluster, "get", "pods", "--namespace", namespace, "--output", f"jsonpath={template}"):
        *containers, pod = line.split()
        for container in containers:
            for suffix, option in (("", ()), (".previous", ("--previous",))):
                said = _ask(cluster, "logs", "--namespace", namespace, pod, "--container", container, *option)
                if suffix and "previous terminated container" in said:
                    continue
                (place / f"{pod}.{container}{suffix}.log").write_text(said)


def _lines(cluster: Cluster, *question: str) -> list[str]:
    """None where there is no answer: what would be said instead is no list of anything."""
    try:
        return cluster.kubectl(*question, timeout=15).splitlines()
    except (Failed, subprocess.TimeoutExpired):
        return []


def _ask(cluster: Cluster, *question: str) -> str:
    try:
        return cluster.kubectl(*question, timeout=15)
    except (Failed, subprocess.TimeoutExpired) as problem:
        return f"{problem}\n"
