"""What a board and alerts ask Prometheus for, and what replicas have: to be compared, by `make test` and with a running job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from testkit.places import CHARTS

#: Labels that scraping adds.
SCRAPED = {"namespace", "pod", "cluster_id", "workload", "standby"}

_METRIC = re.compile(r"\b(understudy_[a-z_]+)\b(?:{([^}]*)})?")
_MATCHER = re.compile(r"([a-z_]+)(=~|!~|!=|=)\"([^\"]*)\"")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A metric by name, with the labels that a question names, and the values that it wants one of them to have."""

    metric: str
    labels: frozenset[str] = frozenset()
    values: frozenset[tuple[str, str]] = frozenset()


def board() -> dict[str, Any]:
    file = CHARTS / "monitoring" / "dashboards" / "understudy.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def asked_by_board(board: Mapping[str, Any]) -> list[str]:
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return panels + [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]


def asked_by_rules(rules: Mapping[str, Any]) -> list[str]:
    """Of a PrometheusRule."""
    return [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]


def wanted(questions: Iterable[str]) -> set[Wanted]:
    """The metrics in PromQL. What is a label of a pod or comes from Grafana's variables is not asked for."""
    found = set()
    for question in questions:
        for metric, selector in _METRIC.findall(question):
            matchers = [each for each in _MATCHER.findall(selector) if each[0] not in SCRAPED]
            labels = frozenset(name for name, _, _ in matchers)
            values = frozenset((name, value) for name, operator, value in matchers if operator == "=")
            found.add(Wanted(metric, labels, values))
    return found


def missing(questions: Iterable[str], answers: Iterable[str]) -> list[Wanted]:
    """What the questions want and none of the answers of ``/metrics`` has."""
    samples = [
        (sample.name, sample.labels)
        for answer in answers
        for family in text_string_to_metric_families(answer)
        for sample in family.samples
    ]
    lacking = [
        each
        for each in wanted(questions)
        if not any(
            each.metric == name and each.labels <= labels.keys() and each.values <= labels.items()
            for name, labels in samples
        )
    ]
    return sorted(lacking, key=lambda each: each.metric)
