"""The charts, as far as they can be judged without Helm and without a cluster; ``e2e/tests/test_charts.py`` has both."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft7Validator
from prometheus_client import generate_latest

from testkit import metrics
from tests.doubles.pages import counters
from tests.infra.recorder import record
from tools.tables import Chart, charts, with_table
from understudy.clock import BootClock
from understudy.protocol.messages import RehearsalReport
from understudy.protocol.names import check_id
from understudy.supervisor.health import FenceCounts, Health
from understudy.supervisor.probes import Probes

HOUSE = Path(__file__).parents[2]
CHARTS = charts()
MONITORING = HOUSE / "charts" / "monitoring"

each_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)


def test_there_are_three() -> None:
    assert [chart.name for chart in CHARTS] == ["monitoring", "object-store", "zookeeper"]


@each_chart
class TestValues:
    def test_every_object_is_closed(self, chart: Chart) -> None:
        objects = [(path, each) for path, each in all_schemas(chart.schema) if each.get("type") == "object"]
        assert [path for path, each in objects if each.get("additionalProperties") is not False] == []
        assert [path for path, each in all_schemas(chart.schema) if "properties" in each and "type" not in each] == []

    def test_what_the_chart_comes_with_fits_its_schema(self, chart: Chart) -> None:
        Draft7Validator.check_schema(chart.schema)
        assert list(Draft7Validator(chart.schema).iter_errors(chart.values)) == []

    def test_a_value_misspelled_at_any_depth_does_not(self, chart: Chart) -> None:
        for path in objects(chart.values, chart.schema):
            values = copy.deepcopy(chart.values)
            place = values
            for key in path:
                place = place[key]
            place["mispelled"] = 1
            (problem,) = Draft7Validator(chart.schema).iter_errors(values)
            assert (tuple(problem.path), "'mispelled' was unexpected" in problem.message) == (path, True)

    def test_every_value_is_described_and_everything_described_has_a_value(self, chart: Chart) -> None:
        """But for what Helm itself adds to the values of a chart that is another's dependency."""
        assert not list(undescribed(chart.values, chart.schema, ""))
        schema = copy.deepcopy(chart.schema)
        schema["properties"].pop("global")
        assert not list(unset(chart.values, schema, ""))

    def test_no_definition_is_left_over(self, chart: Chart) -> None:
        used = set(re.findall(r'"#/definitions/(\w+)"', json.dumps(chart.schema)))
        assert used == chart.schema["definitions"].keys()

    def test_every_value_is_used(self, chart: Chart) -> None:
        texts = "".join(file.read_text(encoding="utf-8") for file in (chart.directory / "templates").iterdir())
        unused = [key for key in chart.values if f".Values.{key}" not in texts]
        assert unused == []

    def test_the_readme_has_them_all_as_they_are(self, chart: Chart) -> None:
        assert chart.readme.read_text(encoding="utf-8") == with_table(chart), "call .venv/bin/python -m tools.tables"

    def test_no_default_is_a_credential(self, chart: Chart) -> None:
        credentials = chart.values.get("credentials", {})
        assert [credentials[key] for key in ("existingSecret", "accessKey", "secretKey") if key in credentials] in (
            [],
            ["", "", ""],
        )


def all_schemas(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema in a schema, itself too, with its place."""
    yield path, schema
    for group in ("properties", "patternProperties", "definitions"):
        for name, below in schema.get(group, {}).items():
            yield from all_schemas(below, f"{path}/{group}/{name}")
    if "items" in schema:
        yield from all_schemas(schema["items"], f"{path}/items")


def objects(
    values: Mapping[str, Any], schema: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The paths of all objects in values whose keys the schema names."""
    if "properties" in schema:
        yield path
        for key, below in schema["properties"].items():
            if isinstance(values.get(key), dict):
                yield from objects(values[key], below, (*path, key))


def undescribed(values: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in values.items():
        known = schema["properties"].get(key, {})
        if not known.get("description"):
            yield f"{path}{key}"
        if "properties" in known:
            yield from undescribed(value, known, f"{path}{key}.")


def unset(values: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, known in schema["properties"].items():
        if key not in values:
            yield f"{path}{key}"
        elif "properties" in known:
            yield from unset(values[key], known, f"{path}{key}.")


@pytest.mark.parametrize("mode", [{}, {"mode": "standalone", "master": "spark://master:7077"}])
def test_what_the_pulumi_program_tells_a_chart_fits_its_schema(mode: dict[str, str]) -> None:
    seen = record(bucketKind="incluster", bucketSecret="flights-bucket", monitoringChart=True, **mode)
    told = {Path(each.inputs["chart"]): each.inputs.get("values", {}) for each in seen if each.kind == "Chart"}
    assert {path.name for path in told} == {"monitoring", "object-store"}
    for path, values in told.items():
        assert list(Draft7Validator(Chart(path).schema).iter_errors(values)) == [], path


def test_the_object_store_is_pulled_with_the_stacks_credentials() -> None:
    seen = record(
        bucketKind="incluster",
        bucketSecret="flights-bucket",
        bucketImage="mirror.example/versitygw:v1",
        imagePullSecrets=["mirror"],
    )
    (chart,) = [each for each in seen if each.kind == "Chart"]
    assert chart.inputs["values"]["imagePullSecrets"] == ["mirror"]


class TestVersions:
    """What the charts install is what the tests here run."""

    def test_of_the_object_store(self) -> None:
        chart = Chart(HOUSE / "charts" / "object-store")
        module = (HOUSE / "tools" / "versitygw" / "go.mod").read_text(encoding="utf-8")
        tested = re.findall(r"github\.com/versity/versitygw (v\S+)", module)
        assert [chart.values["image"]["tag"], chart.about["appVersion"]] == tested * 2

    def test_of_zookeeper(self) -> None:
        chart = Chart(HOUSE / "charts" / "zookeeper")
        tested = ET.parse(HOUSE / "e2e" / "companions" / "pom.xml").getroot().findtext("*/{*}zookeeper.version")
        assert (chart.values["image"]["tag"], chart.about["appVersion"]) == (tested, tested)


# ------------------------------------------------------------------------------------------------------ monitoring
def exposed(directory: Path) -> list[str]:
    """What ``/metrics`` of a leader and of a standby says, by the code that says it."""
    leader, standby = (Health(BootClock(), FenceCounts(), live_within=4.0) for _ in range(2))
    leader.fence.follow(counters(directory / "counters", committed_ms=1000))
    leader.granted(7, 0.1)
    leader.phases |= {"start": 0.5, "first_commit": 1.0}
    standby.stands(RehearsalReport("job.py:9", rehearsed=True, how="live", rounds=1, seconds=1.0), 1.0)
    sent = {"requests": 1, "writes": 1, "bytes": 1}
    return [generate_latest(Probes(health, sent)._registry).decode() for health in (leader, standby)]


def alerts() -> list[str]:
    """The questions of the alerts, as they stand in the template: what Helm puts in are numbers."""
    template = (MONITORING / "templates" / "rules.yaml").read_text(encoding="utf-8")
    found = re.findall(r"^ +expr: (?:\|-\n((?: {12}.*\n)+)|(.*)\n)", template, re.MULTILINE)
    return [block or line for block, line in found]


def test_board_and_alerts_ask_for_nothing_that_replicas_do_not_say(tmp_path: Path) -> None:
    answers = exposed(tmp_path)
    assert metrics.missing(metrics.asked_by_board(metrics.board()), answers) == []
    assert len(alerts()) == 7
    assert all(metrics.wanted([question]) for question in alerts())
    assert metrics.missing(alerts(), answers) == []


@pytest.mark.parametrize(
    "question",
    [
        "understudy_leaders > 1",
        'understudy_takeover_seconds{phase="applause"} > 1',
        'understudy_leader{role="first"} == 1',
        'understudy_leader{namespace="a"} + understudy_refused_writes',
    ],
)
def test_a_question_that_nobody_answers_is_noticed(tmp_path: Path, question: str) -> None:
    assert len(metrics.missing([question], exposed(tmp_path))) == 1


def test_everything_that_replicas_say_is_on_the_board(tmp_path: Path) -> None:
    said = {name for answer in exposed(tmp_path) for name in re.findall(r"^(understudy_\w+)", answer, re.MULTILINE)}
    asked = {each.metric for each in metrics.wanted(metrics.asked_by_board(metrics.board()))}
    assert said == asked


def test_the_docs_name_no_metric_that_replicas_do_not_have(tmp_path: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in (HOUSE / "docs").glob("*.md")}
    named = {name for text in pages.values() for name in re.findall(r"`(understudy_[a-z_]+)(?:\{\w+\})?`", text)}
    assert len(named) > 5
    assert metrics.missing(named, exposed(tmp_path)) == []


def test_a_replica_that_two_monitors_scrape_is_counted_once() -> None:
    """By the alert and by the panels that count replicas: the bundle's monitor and that of the chart may both be there."""
    (two_leaders,) = (each for each in alerts() if each.strip().endswith("> 1"))
    counts = {panel["title"]: panel["targets"][0]["expr"] for panel in metrics.board()["panels"]}
    for question in (two_leaders, counts["Leaders"], counts["Rehearsed standbys"]):
        assert "by (namespace, cluster_id) (max by (namespace, cluster_id, pod) (understudy_" in question


def test_every_panel_says_what_it_shows_and_where_it_is() -> None:
    panels = metrics.board()["panels"]
    assert all(panel["title"] and panel["description"] for panel in panels)
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert max(x for x, _ in cells) < 24


def test_a_cluster_id_is_as_long_as_one_may_be() -> None:
    schema = Draft7Validator(Chart(MONITORING).schema)
    assert schema.is_valid({"clusterIds": [check_id("f" * 40, "clusterId")]})
    assert not schema.is_valid({"clusterIds": ["f" * 41]})


def test_every_alert_says_what_to_do_and_the_readme_knows_it() -> None:
    template = (MONITORING / "templates" / "rules.yaml").read_text(encoding="utf-8")
    names = re.findall(r"- alert: (\w+)", template)
    assert len(names) == template.count("summary: ") == template.count("description: ") == 7
    readme = (MONITORING / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (Understudy\w+) \|", readme, re.MULTILINE) == names
