"""The kinds of prometheus-operator, where it is not installed: enough for the API server to take such objects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.harness.kubectl import Cluster

GROUP = "monitoring.coreos.com"
_KINDS = {"servicemonitors": "ServiceMonitor", "podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}


@contextmanager
def of_prometheus_operator(cluster: Cluster) -> Iterator[None]:
    """Those that the cluster lacks are made, and go in the end; real ones are left alone."""
    known = cluster.kubectl("get", "customresourcedefinitions", "--output=name")
    lacking = [plural for plural in _KINDS if f"/{plural}.{GROUP}" not in known]
    names = [f"{plural}.{GROUP}" for plural in lacking]
    if lacking:
        cluster.apply("default", *[_definition(plural) for plural in lacking])
        wait = ["wait", "--for=condition=Established", "--timeout=60s"]
        cluster.kubectl(*wait, *[f"customresourcedefinition/{name}" for name in names], timeout=70)
    try:
        yield
    finally:
        if lacking and not os.environ.get("E2E_KEEP"):
            cluster.kubectl("delete", "customresourcedefinition", *names, "--wait=false")


def _definition(plural: str) -> dict[str, Any]:
    kind = _KINDS[plural]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"understudy.dev/e2e": "true"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}],
        },
    }
