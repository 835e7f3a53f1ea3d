"""What things are called in a cluster: published names stay, for replicas of other releases, charts and people know them."""

from __future__ import annotations

import re
from pathlib import Path

from understudy.protocol import names
from understudy.protocol.names import Names, cluster_of_replicas

CHARTS = Path(__file__).parents[2] / "charts"
PUBLISHED = {
    "CLUSTER_LABEL": "understudy.dev/cluster",
    "EXECUTOR_OF_LABEL": "understudy.dev/executor-of",
    "HOLDER_LABEL": "understudy.dev/holder",
    "LOCK_LABELS": {"understudy.dev/document": "lock"},
    "JOB_LABELS": {"understudy.dev/document": "job"},
    "REPLICAS_LABELS": {"understudy.dev/component": "replicas"},
    "BURIED": "understudy.dev/buried",
    "LEADER_ANNOTATION": "control-plane.alpha.kubernetes.io/leader",
    "NONCE_ANNOTATION": "understudy.dev/write",
    "REPORTING_CONTROLLER": "understudy.dev/supervisor",
    "FIELD_MANAGER": "understudy",
}


def test_published_names_stay() -> None:
    assert {name: getattr(names, name) for name in PUBLISHED} == PUBLISHED
    of = Names("flights", "delays")
    assert (of.lock, of.job_document, of.replicas) == ("flights-lock", "flights-delays", "flights-replicas")


def test_a_cluster_id_is_found_by_the_document_of_its_replicas() -> None:
    assert cluster_of_replicas(Names("flights", "delays").replicas) == "flights"
    assert cluster_of_replicas(Names("flights", "delays").lock) is None


def test_the_charts_know_no_label_that_is_not_ours() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in CHARTS.rglob("templates/*"))
    assert set(re.findall(r"understudy\.dev/[a-z-]+", text)) == {names.CLUSTER_LABEL}
