"""What the charts render and what they refuse: this takes Helm, and no cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.harness import manifests
from e2e.harness.helm import NAMES, Helm, Values
from e2e.harness.kubectl import Failed
from e2e.harness.linter import Linter
from testkit import metrics
from testkit.places import CHARTS
from tools.tables import Chart

#: What each chart wants to be told before it installs anything.
TOLD: Mapping[str, Values] = {
    "object-store": {"credentials": {"existingSecret": "objects"}},
    "zookeeper": {},
    "monitoring": {"clusterIds": ["flights"], "checkCRDs": False},
}
OPERATOR = [f"monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")]
RECOMMENDED = {
    f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "component", "part-of", "managed-by")
}


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


def rendered(helm: Helm, chart: str, **more: Any) -> list[dict[str, Any]]:
    return helm.template(chart, {**TOLD[chart], **more})


def objects_in(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all objects whose keys the schema names."""
    if "properties" in schema:
        yield path
        for key, below in schema["properties"].items():
            yield from objects_in(below, (*path, key))


@pytest.mark.parametrize("chart", NAMES)
class TestEveryChart:
    def test_helm_has_nothing_against_it(self, helm: Helm, chart: str) -> None:
        assert "0 chart(s) failed" in helm.lint(chart)

    def test_the_same_values_make_the_same_objects(self, helm: Helm, chart: str) -> None:
        """Nothing is made up: an upgrade with the values of last time changes nothing."""
        assert rendered(helm, chart) == rendered(helm, chart)

    def test_its_objects_are_labelled_and_in_the_release_s_namespace(self, helm: Helm, chart: str) -> None:
        for each in rendered(helm, chart):
            assert RECOMMENDED | {"helm.sh/chart"} <= each["metadata"]["labels"].keys(), each
            assert each["metadata"]["namespace"] == "somewhere", each

    def test_a_value_that_nobody_knows_is_refused_at_every_depth(self, helm: Helm, chart: str) -> None:
        for path in objects_in(Chart(CHARTS / chart).schema):
            unknown: dict[str, Any] = {"mispelled": 1}
            for key in reversed(path):
                unknown = {key: unknown}
            with pytest.raises(Failed, match="'mispelled' not allowed"):
                helm.template(chart, unknown)

    def test_kube_linter_has_nothing_against_it(self, helm: Helm, linter: Linter, chart: str) -> None:
        assert linter.findings(rendered(helm, chart)) == []

    def test_its_pods_pass_restricted(self, helm: Helm, chart: str) -> None:
        for owner in of_kind(rendered(helm, chart), "StatefulSet"):
            pod = owner["spec"]["template"]["spec"]
            assert pod["automountServiceAccountToken"] is False
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["runAsUser"] >= 10000
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                assert container["securityContext"] == manifests.RESTRICTED_CONTAINER
                assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
                assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
                tag = container["image"].rpartition(":")[2]
                assert any(letter.isdigit() for letter in tag), "pinned"
            for container in pod["containers"]:
                assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
            assert owner["spec"]["template"]["metadata"]["labels"].keys() >= RECOMMENDED
            assert not any("hostPath" in volume for volume in pod["volumes"])


@pytest.mark.parametrize(
    ("chart", "values", "named"),
    [
        ("object-store", {"buckets": ["Upper"]}, "/buckets/0"),
        ("object-store", {"user": 0}, "/user"),
        ("object-store", {"networkPolicy": {"clients": [{"pods": {}}]}}, "/networkPolicy/clients/0"),
        ("object-store", {"resources": {"limits": {"memory": "much"}}}, "/resources/limits/memory"),
        ("zookeeper", {"replicas": 2}, "/replicas"),
        ("zookeeper", {"settings": {"tickTime": "fast"}}, "/settings/tickTime"),
        ("zookeeper", {"antiAffinity": "maybe"}, "/antiAffinity"),
        ("monitoring", {"rules": {"noLeader": {"for": "soon"}}}, "/rules/noLeader/for"),
        ("monitoring", {"clusterIds": ["Flights!"]}, "/clusterIds/0"),
        ("monitoring", {"clusterIds": ["f" * 41]}, "/clusterIds/0"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(helm: Helm, chart: str, values: Values, named: str) -> None:
    with pytest.raises(Failed) as refused:
        rendered(helm, chart, **values)
    assert named in refused.value.said


@pytest.mark.parametrize("chart", ["object-store", "zookeeper"])
def test_pods_of_the_namespace_may_connect_or_nobody_or_whoever_is_named(helm: Helm, chart: str) -> None:
    def lets_in(**policy: Any) -> list[Any]:
        found = of_kind(rendered(helm, chart, networkPolicy=policy), "NetworkPolicy")
        return [peer for each in found for rule in each["spec"].get("ingress", []) for peer in rule["from"]]

    everybody_here: dict[str, Any] = {"podSelector": {}}
    named = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    assert everybody_here in lets_in()
    assert everybody_here not in lets_in(clients=[])
    assert named in lets_in(clients=[named])
    assert of_kind(rendered(helm, chart, networkPolicy={"enabled": False}), "NetworkPolicy") == []


class TestAnObjectStoreRendered:
    @pytest.mark.parametrize(
        ("credentials", "sentence"),
        [
            ({}, "there is no default password. Name a Secret in credentials.existingSecret, or give"),
            ({"accessKey": "testuser"}, "credentials.secretKey is missing"),
            ({"secretKey": "long-enough"}, "credentials.accessKey is missing"),
            ({"accessKey": "testuser", "secretKey": "short"}, "credentials.secretKey is shorter than eight"),
            ({"accessKey": "a-b", "existingSecret": "objects"}, "both an existing Secret and keys are given"),
        ],
    )
    def test_without_whole_credentials_it_says_what_is_missing(
        self, helm: Helm, credentials: Values, sentence: str
    ) -> None:
        with pytest.raises(Failed) as refused:
            helm.template("object-store", {"credentials": credentials})
        assert sentence in refused.value.said

    def test_a_refusal_does_not_repeat_the_password(self, helm: Helm) -> None:
        for values in (
            {"secretKey": "qwertz"},
            {"secretKey": 12345678901},
            {"accessKey": "a-b", "secretKey": "qwertz"},
        ):
            with pytest.raises(Failed) as refused:
                helm.template("object-store", {"credentials": values})
            assert "qwertz" not in refused.value.said
            assert "12345678901" not in refused.value.said

    def test_keys_stand_in_a_secret_only(self, helm: Helm) -> None:
        keys = {"accessKey": "testuser", "secretKey": "the-password"}
        objects = helm.template("object-store", {"credentials": keys})
        (secret,) = of_kind(objects, "Secret")
        assert set(secret["data"]) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
        assert "the-password" not in json.dumps(objects)

    def test_other_keys_start_the_pod_again(self, helm: Helm) -> None:
        templates = [
            of_kind(helm.template("object-store", {"credentials": keys}), "StatefulSet")[0]["spec"]["template"]
            for keys in (
                {"accessKey": "testuser", "secretKey": "the-password"},
                {"accessKey": "testuser", "secretKey": "another-one"},
            )
        ]
        assert templates[0] != templates[1]

    def test_its_claim_is_kept_until_told_otherwise(self, helm: Helm) -> None:
        (kept,) = of_kind(rendered(helm, "object-store"), "PersistentVolumeClaim")
        (loose,) = of_kind(rendered(helm, "object-store", persistence={"keep": False}), "PersistentVolumeClaim")
        assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert "annotations" not in loose["metadata"]

    @pytest.mark.parametrize("persistence", [{"enabled": False}, {"existingClaim": "theirs"}])
    def test_it_makes_no_claim_that_it_does_not_need(self, helm: Helm, persistence: Values) -> None:
        objects = rendered(helm, "object-store", persistence=persistence)
        assert of_kind(objects, "PersistentVolumeClaim") == []
        (volume,) = of_kind(objects, "StatefulSet")[0]["spec"]["template"]["spec"]["volumes"]
        assert ("emptyDir" in volume) or volume["persistentVolumeClaim"] == {"claimName": "theirs"}

    @pytest.mark.parametrize(("asked", "found"), [("", None), ("-", ""), ("fast", "fast")])
    def test_a_storage_class_is_the_default_one_none_or_named(self, helm: Helm, asked: str, found: str | None) -> None:
        (claim,) = of_kind(rendered(helm, "object-store", persistence={"storageClass": asked}), "PersistentVolumeClaim")
        assert claim["spec"].get("storageClassName") == found


class TestZooKeeperRendered:
    def test_a_budget_and_a_quorum_are_for_three(self, helm: Helm) -> None:
        for replicas, lines in ((1, 0), (3, 3)):
            objects = rendered(helm, "zookeeper", replicas=replicas)
            assert len(of_kind(objects, "PodDisruptionBudget")) == (replicas == 3)
            assert of_kind(objects, "ConfigMap")[0]["data"]["zoo.cfg"].count("server.") == lines

    def test_other_settings_start_its_servers_again(self, helm: Helm) -> None:
        slow, fast = (
            of_kind(rendered(helm, "zookeeper", settings={"tickTime": tick}), "StatefulSet")[0] for tick in (2000, 500)
        )
        assert slow["spec"]["template"] != fast["spec"]["template"]

    @pytest.mark.parametrize(("keep", "fate"), [(True, "Retain"), (False, "Delete")])
    def test_its_claims_stay_until_told_otherwise(self, helm: Helm, keep: bool, fate: str) -> None:
        (servers,) = of_kind(rendered(helm, "zookeeper", persistence={"keep": keep}), "StatefulSet")
        assert servers["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == fate

    @pytest.mark.parametrize("wish", ["soft", "hard", "none"])
    def test_servers_keep_apart_as_told(self, helm: Helm, wish: str) -> None:
        (servers,) = of_kind(rendered(helm, "zookeeper", antiAffinity=wish), "StatefulSet")
        said = json.dumps(servers["spec"]["template"]["spec"].get("affinity", {}))
        assert ("preferred" in said, "required" in said) == (wish == "soft", wish == "hard")


class TestMonitoringRendered:
    @pytest.mark.parametrize("lacking", OPERATOR)
    def test_a_cluster_that_does_not_know_what_it_needs_is_told_so(self, helm: Helm, lacking: str) -> None:
        pods = lacking.endswith("PodMonitor")
        values = {"podMonitor": {"enabled": pods}, "serviceMonitor": {"enabled": not pods}, "clusterIds": ["flights"]}
        known = [each for each in OPERATOR if each != lacking]
        with pytest.raises(Failed, match="does not know") as refused:
            helm.template("monitoring", values, "--api-versions", ",".join(known))
        assert lacking in refused.value.said
        assert "enabled=false" in refused.value.said
        helm.template("monitoring", values, "--api-versions", ",".join(OPERATOR))

    @pytest.mark.parametrize(
        ("part", "kinds"),
        [
            ("serviceMonitor", {"ServiceMonitor", "Service"}),
            ("rules", {"PrometheusRule"}),
            ("dashboard", {"ConfigMap"}),
        ],
    )
    def test_each_part_can_be_turned_off(self, helm: Helm, part: str, kinds: set[str]) -> None:
        everything = {each["kind"] for each in rendered(helm, "monitoring")}
        without = {each["kind"] for each in rendered(helm, "monitoring", **{part: {"enabled": False}})}
        assert everything - without == kinds

    def test_each_alert_can_be_turned_off(self, helm: Helm) -> None:
        def alerts(**rules: Any) -> list[str]:
            (made,) = of_kind(rendered(helm, "monitoring", rules=rules), "PrometheusRule")
            return [rule["alert"] for group in made["spec"]["groups"] for rule in group["rules"] or []]

        switches = "noLeader twoLeaders noStandby oldRehearsal refusedWrites oldCommit slowTakeover".split()
        everything = alerts()
        assert len(everything) == len(switches)
        for number, name in enumerate(switches):
            assert alerts(**{name: {"enabled": False}}) == everything[:number] + everything[number + 1 :]

    def test_it_scrapes_those_who_are_named_or_with_a_pod_monitor_everybody(self, helm: Helm) -> None:
        unnamed = {each["kind"] for each in helm.template("monitoring", {"checkCRDs": False})}
        assert unnamed == {"PrometheusRule", "ConfigMap"}
        alone = {"serviceMonitor": {"enabled": False}, "podMonitor": {"enabled": True}}
        (found,) = of_kind(helm.template("monitoring", {"checkCRDs": False, **alone}), "PodMonitor")
        assert found["spec"]["selector"]["matchExpressions"][0]["operator"] == "Exists"

    def test_a_service_whose_name_would_be_too_long_is_refused_with_what_helps(self, helm: Helm) -> None:
        """The API server would refuse it in the middle of an installation."""
        longest = "f" * 40
        told: dict[str, Any] = {"clusterIds": [longest], "checkCRDs": False}
        release = "prometheus-of-streaming"
        with pytest.raises(Failed, match="fullnameOverride to a name of at most 22"):
            helm.template("monitoring", told, release=release)
        (service,) = of_kind(
            helm.template("monitoring", {**told, "fullnameOverride": "m" * 22}, release=release), "Service"
        )
        assert len(service["metadata"]["name"]) == 63

    def test_nobody_is_scraped_twice(self, helm: Helm) -> None:
        with pytest.raises(Failed, match="scraped twice"):
            rendered(helm, "monitoring", podMonitor={"enabled": True})

    def test_the_board_is_the_one_in_the_chart_and_found_by_grafana(self, helm: Helm) -> None:
        (made,) = of_kind(rendered(helm, "monitoring"), "ConfigMap")
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(made["data"]["understudy.json"]) == metrics.board()
