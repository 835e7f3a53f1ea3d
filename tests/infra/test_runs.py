"""Scripts that end: the Job and the CronJob that run their replicas, and when a run is begun."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra.manifests.base import Manifest
from infra.schedules import is_schedule
from infra.schema import PROJECT
from infra.settings import settings_from
from testkit.bundle import LEAST
from tests.infra.recorder import Registered, outputs, record
from tests.infra.stacks import everything
from tests.infra.test_builders import of_kind, template_of, workload_of
from understudy import errors

CRON = {"workload": "CronJob", "schedule": "0 * * * *"}
RUNS: list[dict[str, Any]] = [{"workload": "Job"}, CRON]
each_kind = pytest.mark.parametrize("told", RUNS, ids=["Job", "CronJob"])


def job(**told: Any) -> Manifest:
    """What is said of one run."""
    spec: Manifest = workload_of(everything(settings_from({**LEAST, **told})))["spec"]
    found: Manifest = spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec
    return found


def action(spec: Manifest, code: int) -> str:
    """What a Job does about a pod whose container has ended with ``code``: the first rule that fits."""
    for rule in spec["podFailurePolicy"]["rules"]:
        codes = rule.get("onExitCodes")
        if codes is not None and code in codes["values"]:
            assert codes["operator"] == "In"
            return str(rule["action"])
    return "Count"


class TestTheEndOfAPod:
    @each_kind
    def test_is_not_begun_again_in_place(self, told: dict[str, Any]) -> None:
        """Kubernetes looks at exit codes of such pods only."""
        assert job(**told)["template"]["spec"]["restartPolicy"] == "Never"

    @each_kind
    def test_with_success_is_the_end_of_the_run_for_every_replica(self, told: dict[str, Any]) -> None:
        spec = job(**told, replicas=3)
        assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
        assert spec["successPolicy"] == {"rules": [{"succeededCount": 1}]}

    @each_kind
    def test_of_a_failed_run_fails_the_job_at_once(self, told: dict[str, Any]) -> None:
        spec = job(**told)
        final = [
            *(errors.JobFailed, errors.SettingsError, errors.EnvironmentProblem, errors.IdentityConflict),
            *(errors.ScriptProblem, errors.AccessDenied),
        ]
        assert {action(spec, each.exit_code) for each in final} == {"FailJob"}

    @each_kind
    def test_that_another_try_may_help_against_counts_and_no_more_than_so_often(self, told: dict[str, Any]) -> None:
        spec = job(**told)
        unclear = [errors.DocumentError.exit_code, errors.ServerUnreachable.exit_code, 70, 137]
        assert {action(spec, each) for each in unclear} == {"Count"}
        assert spec["backoffLimit"] == 20

    @each_kind
    def test_that_was_told_to_stop_or_evicted_does_not_count(self, told: dict[str, Any]) -> None:
        spec = job(**told)
        assert action(spec, errors.ReplicaStopped.exit_code) == "Ignore"
        first = spec["podFailurePolicy"]["rules"][0]
        assert first == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}

    @each_kind
    def test_leaves_the_job_where_it_is(self, told: dict[str, Any]) -> None:
        """One that is gone would be declared again: another run, begun by ``pulumi up``."""
        assert "ttlSecondsAfterFinished" not in job(**told)


class TestARun:
    @each_kind
    def test_is_its_jobs_uid(self, told: dict[str, Any]) -> None:
        (container,) = job(**told)["template"]["spec"]["containers"]
        (found,) = [each for each in container["env"] if each["name"] == "UNDERSTUDY_RUN_ID"]
        path = "metadata.labels['batch.kubernetes.io/controller-uid']"
        assert found["valueFrom"] == {"fieldRef": {"fieldPath": path}}

    def test_has_no_id_in_a_deployment(self) -> None:
        (container,) = template_of(everything(settings_from(LEAST)))["spec"]["containers"]
        assert "UNDERSTUDY_RUN_ID" not in [each["name"] for each in container["env"]]

    def test_may_have_a_deadline(self) -> None:
        assert job(workload="Job", activeDeadline=3600)["activeDeadlineSeconds"] == 3600
        assert "activeDeadlineSeconds" not in job(workload="Job")

    @each_kind
    def test_is_spread_apart_from_its_own_pods_only(self, told: dict[str, Any]) -> None:
        keys = [each["matchLabelKeys"] for each in job(**told)["template"]["spec"]["topologySpreadConstraints"]]
        assert keys == [["batch.kubernetes.io/controller-uid"]] * 2

    @each_kind
    def test_may_be_drained_one_replica_at_a_time(self, told: dict[str, Any]) -> None:
        """The controller of budgets cannot ask a Job how many pods it is to have, and would refuse every eviction."""
        (budget,) = of_kind(everything(settings_from({**LEAST, **told, "replicas": 3})), "PodDisruptionBudget")
        assert budget["spec"]["minAvailable"] == 2
        assert "maxUnavailable" not in budget["spec"]
        assert not of_kind(everything(settings_from({**LEAST, **told, "replicas": 1})), "PodDisruptionBudget")

    @each_kind
    def test_that_has_ended_is_no_job_without_a_leader_to_its_monitor(self, told: dict[str, Any]) -> None:
        stack = settings_from({**LEAST, **told, "podMonitor": True, "metricsFrom": "monitoring"})
        (monitor,) = of_kind(everything(stack), "PodMonitor")
        (scraped,) = monitor["spec"]["podMetricsEndpoints"]
        chart = (PROJECT / "charts" / "monitoring" / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
        _, _, told_apart = chart.partition('{{- define "monitoring.relabelings" -}}')
        for relabelings in (scraped["relabelings"], yaml.safe_load(told_apart.partition("{{- end }}")[0])):
            assert relabeled(relabelings, __meta_kubernetes_pod_controller_kind="Job")["workload"] == "Job"
            assert "workload" not in relabeled(relabelings, __meta_kubernetes_pod_controller_kind="ReplicaSet")
        rules = (PROJECT / "charts" / "monitoring" / "templates" / "rules.yaml").read_text(encoding="utf-8")
        assert 'present_over_time(understudy_leader{workload!="Job"}[' in rules


@pytest.mark.parametrize(
    ("told", "marked"),
    [
        ({}, False),
        ({"replicas": 1}, True),
        ({"rehearse": "off"}, True),
        ({"mode": "native", "standbyExecutors": 0}, True),
        ({"mode": "native"}, False),
        ({"workload": "StatefulSet", "replicas": 1}, True),
    ],
)
def test_a_job_that_has_no_standby_to_rehearse_is_marked_for_the_alert_that_misses_one(
    told: dict[str, Any], *, marked: bool
) -> None:
    stack = settings_from({**LEAST, **told, "podMonitor": True, "metricsFrom": "monitoring"})
    (monitor,) = of_kind(everything(stack), "PodMonitor")
    (scraped,) = monitor["spec"]["podMetricsEndpoints"]
    assert (relabeled(scraped["relabelings"]).get("standby") == "none") is marked


def relabeled(relabelings: list[dict[str, Any]], **labels: str) -> dict[str, str]:
    """As Prometheus does (its documentation of ``relabel_config``, action ``replace``): groups that are not there are empty, and so goes
    a label without a value.
    """
    for each in relabelings:
        value = ";".join(labels.get(name, "") for name in each.get("sourceLabels", []))
        found = re.fullmatch(each.get("regex", "(.*)"), value)
        if found is None:
            continue
        put = re.sub(r"\$(\d+)", partial(_group, found), each.get("replacement", "$1"))
        labels = {**labels, each["targetLabel"]: put}
    return {name: value for name, value in labels.items() if value}


def _group(of: re.Match[str], name: re.Match[str]) -> str:
    number = int(name[1])
    return (of[number] or "") if number <= of.re.groups else ""


class TestACronJob:
    def spec(self, **told: Any) -> Manifest:
        found: Manifest = workload_of(everything(settings_from({**LEAST, **CRON, **told})))["spec"]
        return found

    def test_begins_no_run_while_one_is_under_way(self) -> None:
        assert self.spec()["concurrencyPolicy"] == "Forbid"

    def test_leaves_out_a_time_that_passed_while_one_was_under_way(self) -> None:
        """Without a limit Kubernetes begins that one as soon as the other has ended."""
        assert 10 <= self.spec()["startingDeadlineSeconds"] < 300

    def test_has_its_schedule_and_time_zone(self) -> None:
        spec = self.spec(timeZone="Europe/Berlin")
        assert (spec["schedule"], spec["timeZone"]) == ("0 * * * *", "Europe/Berlin")
        assert "suspend" not in spec
        assert "timeZone" not in self.spec()

    def test_without_a_schedule_begins_none_by_itself(self) -> None:
        assert self.spec(schedule="none")["suspend"] is True
        assert is_schedule(self.spec(schedule="none")["schedule"]), "Kubernetes asks for one"


def of(seen: list[Registered], kind: str) -> Registered:
    (found,) = [each for each in seen if each.kind == kind]
    return found


class TestPulumi:
    def test_replaces_a_job_that_has_changed_after_it_has_deleted_the_old_one(self) -> None:
        made = of(record(workload="Job"), "Job")
        assert made.object_name == "flights"
        assert made.delete_before_replace
        assert made.replace_on_changes == ("spec",)

    def test_waits_for_a_job_to_be_there_and_not_for_its_end(self) -> None:
        """``skipAwait`` would not wait for its deletion either."""
        annotations = of(record(workload="Job"), "Job").inputs["metadata"]["annotations"]
        assert annotations["pulumi.com/waitFor"] == "jsonpath={.metadata.uid}"
        assert not {"pulumi.com/skipAwait", "pulumi.com/replaceUnready"} & annotations.keys()

    def test_changes_a_cron_job_in_place(self) -> None:
        made = of(record(**CRON), "CronJob")
        assert not made.delete_before_replace
        assert not made.replace_on_changes

    @each_kind
    def test_tells_what_to_look_at(self, told: dict[str, Any]) -> None:
        assert outputs(**told)["workload"] == f"{told['workload'].lower()}/flights"


@pytest.mark.parametrize(
    "text",
    [
        "0 * * * *",
        "*/15 8-18 * * mon-fri",
        "0 0 1,15 * ?",
        "@hourly",
        "59 23 31 12 6",
        "5/10 * * JAN-mar *",
        "* * * * 0",
    ],
)
def test_a_schedule_is_read_as_kubernetes_reads_it(text: str) -> None:
    assert is_schedule(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "hourly", "@never", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *"),
        *(
            "* * * * 7",
            "*/0 * * * *",
            "1- * * * *",
            "a * * * *",
            "5-1 * * * *",
            "1,,2 * * * *",
            "CRON_TZ=UTC 0 0 * * *",
        ),
        *("* * * mon *", "@Hourly", "\u0661 * * * *", "-1 * * * *"),
    ],
)
def test_what_kubernetes_would_refuse_is_no_schedule(text: str) -> None:
    assert not is_schedule(text)


@given(st.text(max_size=30))
def test_any_text_is_a_schedule_or_none(text: str) -> None:
    assert is_schedule(text) in {True, False}
