"""What a failed test leaves for its reader: events, logs and documents, under ``build/e2e/<test>/``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from e2e.cluster.layout import REPOSITORY, Layout
from e2e.kubectl import Cluster, Failed

DIRECTORY = REPOSITORY / "build" / "e2e"

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


def collect(cluster: Cluster, test: str, namespaces: Iterable[str]) -> Path:
    """Never raises for a cluster that does not answer: what it said instead is written down."""
    directory = DIRECTORY / re.sub(r"[^A-Za-z0-9_.-]+", "-", test).strip("-")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "nodes.txt").write_text(_ask(cluster, "get", "nodes", "--output=wide"))
    for namespace in namespaces:
        place = directory / namespace
        place.mkdir(exist_ok=True)
        for file, question in _QUESTIONS.items():
            (place / file).write_text(_ask(cluster, *question, "--namespace", namespace))
        _logs(cluster, namespace, place)
    if cluster.local:
        state = Layout.default().state
        for log in state.glob("*/log/*.log"):
            (directory / f"{log.parent.parent.name}-{log.name}").write_bytes(log.read_bytes()[-200_000:])
    return directory


def _logs(cluster: Cluster, namespace: str, place: Path) -> None:
    template = "{range .items[*]}{range .spec.containers[*]}{@.name}{' '}{end}{.metadata.name}{'\\n'}{end}"
    listed = _ask(cluster, "get", "pods", "--namespace", namespace, "--output", f"jsonpath={template}")
    for line in listed.splitlines():
        *containers, pod = line.split()
        for container in containers:
            for suffix, option in (("", ()), (".previous", ("--previous",))):
                said = _ask(cluster, "logs", "--namespace", namespace, pod, "--container", container, *option)
                if suffix and "previous terminated container" in said:
                    continue
                (place / f"{pod}.{container}{suffix}.log").write_text(said)


def _ask(cluster: Cluster, *question: str) -> str:
    try:
        return cluster.kubectl(*question, timeout=15)
    except (Failed, subprocess.TimeoutExpired) as problem:
        return f"{problem}\n"
