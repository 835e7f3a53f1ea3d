"""Every wrong value is refused with its key, what is wrong and an example, before anything is registered."""

from __future__ import annotations

import contextvars
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pulumi.runtime.config import set_all_config

from infra.config import given as given_to_the_program
from infra.config import read
from infra.quantities import java_bytes, quantity
from infra.schema import PROJECT, complete, json_schema, keys
from infra.settings import settings_from
from testkit.bundle import LEAST
from tools.tables import BUNDLE, OPTIONS, PROGRAM, SCHEMA, pages
from understudy.config.bundle import keys as option_keys
from understudy.errors import SettingsError

#: Key to blame, and what is set besides the least.
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("clusterId", {"clusterId": "Flights_1"}, "DNS label"),
    ("clusterId", {"clusterId": "f" * 41}, "1 to 40"),
    ("clusterId", {"clusterId": ""}, "DNS label"),
    ("jobId", {"jobId": "-x"}, "DNS label"),
    ("jobId", {"jobId": "lock"}, "another HA document"),
    ("jobId", {"jobId": "replicas"}, "another HA document"),
    ("namespace", {"namespace": ""}, "is needed"),
    ("namespace", {"namespace": "My_Space"}, "DNS label"),
    ("image", {"image": ""}, "is needed"),
    ("imagePullPolicy", {"imagePullPolicy": "Sometimes"}, "Always, IfNotPresent, Never"),
    ("script", {"script": ""}, "either script"),
    ("script", {"scriptFile": "examples/flights.py"}, "either script"),
    ("script", {"submitted": True, "haStorage": True}, "either script"),
    ("scriptFile", {"script": "", "scriptFile": "examples/missing.py"}, "a file"),
    ("submitted", {"script": "", "submitted": True}, "no HA storage"),
    (
        "submitted",
        {"script": "", "submitted": True, "haStorage": True, "workload": "StatefulSet", "replicas": 1},
        "its own pod's volume",
    ),
    (
        "arguments",
        {"script": "", "submitted": True, "haStorage": True, "arguments": ["a"]},
        "submitted with the script",
    ),
    ("replicas", {"replicas": 0}, "at least 1"),
    ("replicas", {"replicas": "two"}, "integer"),
    ("replicas", {"workload": "StatefulSet"}, "1 replica"),
    ("state", {"state": "stopped"}, "one of running, suspended"),
    ("state", {"state": "suspended", "workload": "StatefulSet", "replicas": 1}, "its own pod's volume"),
    ("state", {"state": "running", "workload": "Job"}, "end with their run"),
    ("state", {"state": "suspended", "workload": "CronJob", "schedule": "@daily"}, "end with their run"),
    ("workload", {"workload": "ReplicaSet"}, "one of Deployment, StatefulSet, Job, CronJob"),
    ("schedule", {"workload": "CronJob"}, "a CronJob needs one"),
    ("deleteResultOnCommit", {"deleteResultOnCommit": True}, "no HA storage"),
    ("schedule", {"workload": "CronJob", "schedule": "hourly"}, "five fields of cron"),
    ("schedule", {"workload": "CronJob", "schedule": "0 24 * * *"}, "five fields of cron"),
    ("schedule", {"schedule": "@hourly"}, "a Deployment has no schedule"),
    ("schedule", {"workload": "Job", "schedule": "@hourly"}, "a Job has no schedule"),
    ("timeZone", {"timeZone": "Europe/Berlin"}, "a Deployment has no schedule"),
    ("timeZone", {"workload": "CronJob", "schedule": "@daily", "timeZone": "CET +1"}, "time zone database"),
    ("timeZone", {"workload": "CronJob", "schedule": "none", "timeZone": "UTC"}, "there is no schedule"),
    ("activeDeadline", {"activeDeadline": 60}, "a Deployment does not end"),
    ("activeDeadline", {"workload": "Job", "activeDeadline": -1}, "at least 0"),
    ("environment", {"workload": "Job", "environment": {"UNDERSTUDY_RUN_ID": "x"}}, "its Job's UID"),
    ("environment", {"workload": "Job", "secretEnvironment": {"UNDERSTUDY_RUN_ID": "a/b"}}, "its Job's UID"),
    ("production", {"production": 1}, "boolean"),
    ("arguments", {"arguments": [1]}, "list of strings"),
    ("environment", {"environment": {"A": ["b"]}}, "names with a string"),
    ("environment", {"environment": {"A-B": "c"}}, "names of variables"),
    ("environment", {"environment": {"UNDERSTUDY_POD_IP": "1.2.3.4"}}, "none of"),
    ("secretEnvironment", {"secretEnvironment": {"TOKEN": "secret"}}, "SECRET/KEY"),
    ("secretEnvironment", {"secretEnvironment": {"TOKEN": "secret/a key"}}, "SECRET/KEY"),
    ("secretEnvironment", {"secretEnvironment": {"TOKEN": "secret/.."}}, "SECRET/KEY"),
    ("environment", {"environment": {"A": "b"}, "secretEnvironment": {"A": "secret/key"}}, "from a Secret as well"),
    ("environment", {"environment": {"AWS_ACCESS_KEY_ID": "a"}, "bucketSecret": "s"}, "from a Secret as well"),
    ("secretEnvironment", {"secretEnvironment": {"AWS_ACCESS_KEY_ID": "a/b"}, "bucketSecret": "s"}, "would be no pair"),
    ("environment", {"environment": {"UNDERSTUDY_NAMESPACE": "other"}}, "the option --namespace"),
    ("environment", {"environment": {"UNDERSTUDY_REHEARSE_ROUNDS": "4"}}, "Set rehearseRounds"),
    ("secretEnvironment", {"secretEnvironment": {"UNDERSTUDY_PROFILE": "a/b"}}, "Set profile"),
    ("lock", {"lock": "multi", "workload": "StatefulSet", "replicas": 1}, "on its volume"),
    ("flowSchema", {"flowSchema": True, "workload": "StatefulSet", "replicas": 1}, "to its volume"),
    ("profile", {"profile": "slow"}, "unknown profile"),
    ("timings", {"timings": {"lease": 5}}, "is not below lease"),
    ("timings", {"timings": {"leese": 20}}, "unknown timing"),
    ("timings", {"timings": {"lease": 20.5}}, "whole seconds"),
    ("restartDelay", {"restartDelay": "0"}, "seconds, above 0"),
    ("stopPatience", {"stopPatience": "soon"}, "seconds, above 0"),
    ("takeoverTimeout", {"takeoverTimeout": 0}, "at least 1"),
    ("terminationGracePeriod", {"stopPatience": "30"}, "For example 68"),
    ("terminationGracePeriod", {"terminationGracePeriod": 5}, "For example 10"),
    ("rehearseRounds", {"rehearseRounds": 0}, "at least 1"),
    ("rehearseBytes", {"rehearseBytes": 0}, "at least 1"),
    ("standbyMaxAge", {"standbyMaxAge": 0}, "at least 1"),
    ("restartWindow", {"restartWindow": 0}, "at least 1"),
    ("restartStrategy", {"restartStrategy": "always"}, "exponential, fixed-delay, none"),
    ("restartAttempts", {"restartAttempts": 1001}, "1001 is above 1000"),
    ("restartAttempts", {"restartStrategy": "none", "restartAttempts": 1}, "says nothing"),
    ("lock", {"lock": "file"}, "lease, configmap, multi"),
    ("mode", {"mode": "session"}, "application, native, standalone"),
    ("mode", {"mode": "native", "workload": "StatefulSet", "replicas": 1}, "no access"),
    ("master", {"mode": "standalone"}, "URL of a Spark master"),
    ("master", {"master": "spark://m:7077"}, "no master to name"),
    ("standbyExecutors", {"mode": "native", "standbyExecutors": 3}, "no more than executors"),
    ("memory", {"memory": "lots"}, "a quantity"),
    ("memory", {"memory": "1Gi"}, "on top of it"),
    ("driverMemory", {"driverMemory": "1024"}, "as Spark writes it"),
    ("spread", {"spread": "never"}, "preferred, required"),
    ("bucketKind", {"bucketKind": "minio"}, "one of existing"),
    ("bucketKind", {"bucketKind": "gcs"}, "cannot be fenced"),
    ("bucket", {"bucket": ""}, "a bucket's name"),
    ("bucket", {"bucket": "s3://flights"}, "a bucket's name"),
    ("bucketEndpoint", {"bucketKind": "s3"}, "server's URL"),
    ("bucketEndpoint", {"bucketEndpoint": "minio:9000"}, "a URL"),
    ("bucketEndpoint", {"bucketKind": "aws", "bucketEndpoint": "https://x.example"}, "knows its own"),
    ("bucketImage", {"bucketImage": "versitygw:1"}, "runs no server"),
    (
        "bucketImage",
        {"bucketKind": "incluster", "bucketSecret": "s", "bucketImage": "host:5000/versitygw"},
        "with a tag",
    ),
    ("bucketSecret", {"bucketKind": "incluster"}, "no credentials"),
    ("bucketSecret", {"bucketEndpoint": "https://x.example"}, "no credentials"),
    ("bucketSecretKey", {"bucketAccessKey": "a"}, "belong together"),
    ("bucketSecret", {"bucketSecret": "s", "bucketAccessKey": "a", "bucketSecretKey": "b"}, "either"),
    ("workloadIdentity", {"workloadIdentity": {"a": "b"}, "bucketSecret": "s"}, "either"),
    ("egress", {"egress": ["everywhere"]}, "a CIDR"),
    ("sparkSettings", {"sparkSettings": {"spark.driver.memory": "9g"}}, "is what driverMemory is for"),
    (
        "sparkSettings",
        {"sparkSettings": {"spark.hadoop.fs.s3a.encryption.algorithm": "SSE-KMS"}, "haStorage": True},
        "spark.hadoop.fs.s3a.encryption.algorithm' is refused; SSE-KMS is nothing that HA storage can use",
    ),
    (
        "sparkSettings",
        {"sparkSettings": {"spark.hadoop.fs.s3a.aws.credentials.provider": "org.example.Mine"}, "haStorage": True},
        "Mine is nothing that HA storage can use",
    ),
    ("metricsFrom", {"podMonitor": True}, "keep Prometheus out"),
    ("bucketSecret", {"bucketSecret": "My_Secret"}, "an object's name"),
    ("imagePullSecrets", {"imagePullSecrets": ["a_b"]}, "an object's name"),
    ("egress", {"egress": ["10.0.0.1"]}, "For example 10.0.0.1/32"),
    ("egress", {"egress": ["10.0.0.0/255.0.0.0"]}, "For example 10.0.0.0/8"),
    ("egress", {"egress": ["10.0.0.0/8"], "networkPolicies": False}, "without network policies"),
    ("metricsFrom", {"metricsFrom": "My_Space"}, "DNS label"),
    ("image", {"image": "Flights 1"}, "an image's name"),
    ("image", {"image": "flüge:1.0"}, "an image's name"),
    ("environment", {"environment": {"LOG_LEVEL\n": "x"}}, "names of variables"),
    ("memory", {"memory": "٢Gi"}, "a quantity"),
    ("master", {"mode": "standalone", "master": "spark://fd00::7:7077"}, "URL of a Spark master"),
    ("storageClass", {"storageClass": "My Class"}, "an object's name"),
    ("priorityClass", {"priorityClass": "High_Priority"}, "an object's name"),
    ("nodeSelector", {"nodeSelector": {"disk type": "ssd"}}, "a label's name"),
    ("nodeSelector", {"nodeSelector": {"disk": "very fast"}}, "up to 63"),
    ("podMonitorLabels", {"podMonitorLabels": {"release/": "x"}}, "a label's name"),
    ("workloadIdentity", {"workloadIdentity": {"eks amazonaws": "arn:x"}}, "a label's name"),
    ("bucketRegion", {"bucketRegion": "Frankfurt am Main"}, "a region"),
    ("bucketPrefix", {"bucketPrefix": "jobs//flights"}, "single /"),
    ("bucketPrefix", {"bucketPrefix": "s3a://flights"}, "single /"),
    ("retain", {"production": True, "retain": False}, "purge only"),
    ("bucketKind", {"production": True, "bucketKind": "incluster", "bucketSecret": "s"}, "for development"),
    ("image", {"production": True, "image": "flights"}, "a tag other than latest"),
    ("image", {"production": True, "image": "localhost:5000/flights:latest"}, "a tag other than latest"),
    ("replicas", {"production": True, "replicas": 1}, "a standby"),
]


@pytest.mark.parametrize(("key", "wrong", "said"), WRONG, ids=[f"{key}-{wrong}"[:70] for key, wrong, _ in WRONG])
def test_a_wrong_value_is_refused_by_its_key_with_a_remedy(key: str, wrong: Mapping[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_from({**LEAST, **wrong})
    assert refused.value.where == f"understudy:{key}"
    assert said in str(refused.value)
    assert refused.value.remedy


def test_variables_that_lead_other_commands_to_the_job_may_be_set() -> None:
    told = {"UNDERSTUDY_CLUSTER_ID": "flights", "UNDERSTUDY_HA_STORAGE": "s3a://flights/ha", "UNDERSTUDY_LOG": "json"}
    assert settings_from({**LEAST, "environment": told}).job.environment == told


def test_a_script_is_called_what_a_configmap_can_hold(tmp_path: Path) -> None:
    script = tmp_path / "my job.py"
    script.touch()
    with pytest.raises(SettingsError, match="a name of letters, digits"):
        settings_from({**LEAST, "script": "", "scriptFile": str(script)})


def test_a_key_that_is_not_declared_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(SettingsError, match="understudy:replica: no such key. Did you mean replicas?"):
        complete({"replica": 2})


def test_a_secret_of_the_wrong_type_is_not_shown() -> None:
    with pytest.raises(SettingsError) as refused:
        complete({"bucketSecretKey": ["hush-hush"]})
    assert "hush-hush" not in str(refused.value)


def test_the_engine_is_not_told_which_keys_are_secret() -> None:
    """It would take an empty default for a secret in plain text, and refuse every stack that has no keys."""
    assert "secret:" not in (PROJECT / "Pulumi.yaml").read_text(encoding="utf-8")


def test_a_key_in_plain_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({"understudy:bucketSecretKey": "hush-hush"}))
    with pytest.raises(SettingsError, match="understudy:bucketSecretKey: is there in plain text") as refused:
        given_to_the_program()
    assert "hush-hush" not in str(refused.value)


def test_a_secret_that_would_be_plain_text_in_the_cluster_is_refused() -> None:
    def program() -> None:
        set_all_config({"understudy:environment": '{"TOKEN": "hush-hush"}'}, ["understudy:environment"])
        given_to_the_program()

    with pytest.raises(SettingsError, match="understudy:environment: is a secret here") as refused:
        contextvars.copy_context().run(program)
    assert "hush-hush" not in str(refused.value)


def test_settings_show_no_secret() -> None:
    settings = settings_from({**LEAST, "bucketAccessKey": "AKIA", "bucketSecretKey": "hush-hush"})
    assert "hush-hush" not in repr(settings)
    assert "AKIA" not in repr(settings)


def test_the_least_is_enough() -> None:
    settings = settings_from(LEAST)
    assert settings.run.replicas == 2
    assert settings.keeps
    assert settings.job.job == "flights"


@pytest.mark.parametrize("stack", ["dev", "hourly", "prod"])
def test_the_stacks_are_sound(stack: str) -> None:
    text = (PROJECT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)["config"]
    keys_made_by_make_up = {"bucketAccessKey": "understudy", "bucketSecretKey": "generated"} if stack == "dev" else {}
    written = read(
        {name.partition(":")[2]: value for name, value in config.items()}
    )  # the engine may have written it again
    settings = settings_from({**written, **keys_made_by_make_up})
    assert settings.protection.production is (stack != "dev")
    assert settings.keeps


def test_every_key_says_what_it_is_and_has_a_default_of_its_type() -> None:
    assert complete({}) == {name: key.default for name, key in keys().items()}
    for name, key in keys().items():
        assert complete({name: key.default})  # the default passes its own type
        assert re.match(r"^[A-Z0-9].*[.:a-z]$", key.description) or key.description[0].islower(), name
        assert len(key.description) > 15, name


@pytest.mark.parametrize("page", [BUNDLE, OPTIONS, PROGRAM, SCHEMA], ids=lambda page: page.name)
def test_what_is_written_from_declarations_is_up_to_date(page: Path) -> None:
    (text,) = (text for each, text in pages() if each == page)
    assert page.read_text(encoding="utf-8") == text(), "call .venv/bin/python -m tools.tables"


def test_a_key_that_is_an_option_is_that_option() -> None:
    for name, key in option_keys().items():
        assert (keys()[name].type, keys()[name].default, keys()[name].description) == (
            key.type,
            key.default,
            key.description,
        )


class TestSchema:
    """Of a stack's file."""

    def problems(self, **config: Any) -> list[str]:
        found = Draft202012Validator(json_schema()).iter_errors(
            {"config": {f"understudy:{name}": value for name, value in config.items()}}
        )
        return [error.message for error in found]

    def test_is_a_schema(self) -> None:
        Draft202012Validator.check_schema(json_schema())

    @pytest.mark.parametrize("stack", ["dev", "hourly", "prod"])
    def test_takes_the_stacks(self, stack: str) -> None:
        text = (PROJECT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
        config = {name.partition(":")[2]: value for name, value in yaml.safe_load(text)["config"].items()}
        assert self.problems(**config) == []

    def test_takes_what_the_engine_writes(self) -> None:
        assert self.problems(replicas="3", production="true", bucketSecretKey={"secure": "v1:x"}) == []

    @pytest.mark.parametrize(
        "wrong",
        [
            {"replica": 2},
            {"replicas": "two"},
            {"rehearseRounds": 0},
            {"standbyExecutors": -1},
            {"rehearse": "loudly"},
            {"lock": "file"},
            {"profile": "quick"},
            {"production": "yes"},
            {"arguments": [1]},
            {"environment": {"A": ["b"]}},
            {"bucketSecretKey": "hush-hush"},
        ],
        ids=str,
    )
    def test_refuses_what_the_program_refuses(self, wrong: dict[str, Any]) -> None:
        assert self.problems(**wrong)
        with pytest.raises(SettingsError):
            settings_from({**LEAST, **read(wrong)})


def test_the_engine_s_text_is_read_by_the_declared_type() -> None:
    found = read(
        {"replicas": "3", "production": "true", "arguments": '["a"]', "environment": '{"A":"1"}', "image": "x:1"}
    )
    assert found == {"replicas": 3, "production": True, "arguments": ["a"], "environment": {"A": "1"}, "image": "x:1"}
    with pytest.raises(SettingsError, match=r"understudy:replicas: 'three' is no integer"):
        read({"replicas": "three"})


@given(st.integers(1, 10**6), st.sampled_from(["Ki", "Mi", "Gi", "k", "M", "G", "m", ""]))
def test_quantities_are_read_as_kubernetes_reads_them(number: int, unit: str) -> None:
    factor = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9, "m": 0.001, "": 1}[unit]
    assert quantity(f"{number}{unit}") == pytest.approx(number * factor)


@given(st.integers(1, 10**4), st.sampled_from("kmgt"))
def test_memory_is_read_as_spark_reads_it(number: int, unit: str) -> None:
    assert java_bytes(f"{number}{unit}") == number * 1024 ** (1 + "kmgt".index(unit))
    assert java_bytes(f"{number}{unit.upper()}b") == java_bytes(f"{number}{unit}")


@given(st.text(max_size=12))
def test_what_is_no_amount_is_none(text: str) -> None:
    for parse in (quantity, java_bytes):
        found = parse(text)
        assert found is None or found > 0
