"""The objects of every stack keep to this. Without a cluster; ``e2e/tests/test_manifests.py`` asks one."""

from __future__ import annotations

import json
import re
from typing import Any

import kubernetes_validate
import pytest
import typer.core
import typer.main
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.manifests.base import Manifest
from infra.manifests.everything import kept_objects
from infra.manifests.ha import ha_objects, owners, persistent_volume_claims
from infra.manifests.workload import workload
from infra.schema import PROJECT
from infra.settings import WORKLOADS, Settings, settings_from
from testkit.bundle import LEAST
from testkit.versions import kubernetes_version
from tests.infra.pod_security import violations
from tests.infra.stacks import everything, patient, stacks
from understudy.cli.main import app
from understudy.config.bundle import keys_of

any_stack = given(stack=stacks().map(settings_from))
any_running_stack = given(stack=stacks(runs=True).map(settings_from))

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
CHECKS = yaml.safe_load((PROJECT / "infra" / "kube-linter.yaml").read_text(encoding="utf-8"))["checks"]["include"]
EXCUSE = "ignore-check.kube-linter.io/"


#: Whether a line ends with a carriage return makes no other script.
SOURCES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)


def of_kind(objects: list[Manifest], *kinds: str) -> list[Manifest]:
    return [each for each in objects if each["kind"] in kinds]


def names(objects: list[Manifest], kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in of_kind(objects, kind)}


def workload_of(objects: list[Manifest]) -> Manifest:
    """What runs replicas: a declared state has a Job, too."""
    (found,) = [
        each for each in of_kind(objects, *WORKLOADS) if each["metadata"]["name"] in names(objects, "ServiceAccount")
    ]
    return found


def template_in(workload: Manifest) -> Manifest:
    spec = workload["spec"]
    template: Manifest = (spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec)["template"]
    return template


def template_of(objects: list[Manifest]) -> Manifest:
    return template_in(workload_of(objects))


def rules_of(objects: list[Manifest]) -> list[Manifest]:
    return [rule for role in of_kind(objects, "Role") for rule in role["rules"]]


class TestPods:
    @patient
    @any_stack
    def test_pass_pod_security_restricted(self, stack: Settings) -> None:
        for each in of_kind(everything(stack), *WORKLOADS):
            assert violations(template_in(each)["spec"]) == []

    @patient
    @any_running_stack
    def test_are_found_by_whatever_selects_them(self, stack: Settings) -> None:
        objects = everything(stack)
        template = template_of(objects)
        spread = template["spec"].get("topologySpreadConstraints", [])
        selectors = [each["labelSelector"] for each in spread]
        if not stack.ends:  # a Job makes its own
            selectors.append(workload_of(objects)["spec"]["selector"])
        selectors += [each["spec"]["selector"] for each in of_kind(objects, "PodDisruptionBudget", "PodMonitor")]
        selectors += [
            each["spec"]["podSelector"]
            for each in of_kind(objects, "NetworkPolicy")
            if each["metadata"]["name"] == stack.job.cluster
        ]
        alone = stack.ends and stack.run.replicas == 1
        assert len(of_kind(objects, "PodDisruptionBudget")) == (not alone)
        assert not stack.network.egress or any(
            "Egress" in each["spec"]["policyTypes"] for each in of_kind(objects, "NetworkPolicy")
        )
        for each in selectors:
            assert each["matchLabels"]
            assert each["matchLabels"].items() <= template["metadata"]["labels"].items()

    @patient
    @any_running_stack
    def test_name_nothing_that_is_not_there(self, stack: Settings) -> None:
        objects = everything(stack)
        pod = template_of(objects)["spec"]
        (container,) = pod["containers"]

        volumes = {each["name"]: each for each in pod["volumes"]}
        assert len(volumes) == len(pod["volumes"])
        assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()
        paths = [each["mountPath"] for each in container["volumeMounts"]]
        assert len(set(paths)) == len(paths)
        for each in volumes.values():
            if "configMap" in each:
                assert each["configMap"]["name"] in names(objects, "ConfigMap")
            if "persistentVolumeClaim" in each:
                assert each["persistentVolumeClaim"]["claimName"] in names(objects, "PersistentVolumeClaim")
            if "secret" in each:
                assert each["secret"]["secretName"] == stack.ha.secret  # which others make
        assert pod["serviceAccountName"] in names(objects, "ServiceAccount")
        ports = {each["name"] for each in container["ports"]}
        assert {container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("readiness", "liveness")} <= ports
        for monitor in of_kind(objects, "PodMonitor"):
            assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} <= ports

    @patient
    @any_running_stack
    def test_are_told_each_variable_once(self, stack: Settings) -> None:
        (container,) = template_of(everything(stack))["spec"]["containers"]
        told = [each["name"] for each in container["env"]]
        assert len(set(told)) == len(told)

    @pytest.mark.parametrize("mode", ["application", "standalone", "native"])
    def test_have_the_values_of_their_environment_as_they_were_given(self, mode: str) -> None:
        """The kubelet replaces names in commands and variables: in those of an executor's pod, too, where one is made."""
        given = {"A": "a$$b", "B": "$(UNDERSTUDY_POD_NAME) $(A)", "C": "$", "D": "plain"}
        master = {"master": "spark://spark:7077"} if mode == "standalone" else {}
        stack = settings_from({**LEAST, "mode": mode, **master, "environment": given})
        (container,) = template_of(everything(stack))["spec"]["containers"]
        known = {"UNDERSTUDY_POD_NAME": "pod-1", **given}
        assert {
            each["name"]: replaced(each["value"], known) for each in container["env"] if each["name"] in given
        } == given
        prefix = "spark.executorEnv."
        told = (replaced(word, known) for word in container["args"] if word.startswith(prefix))
        executors = {name.removeprefix(prefix): value for name, _, value in (word.partition("=") for word in told)}
        if mode == "native":
            executors = {name: replaced(value, known) for name, value in executors.items()}
        assert executors == ({} if mode == "application" else given)

    @patient
    @any_running_stack
    def test_have_a_token_only_where_it_opens_something(self, stack: Settings) -> None:
        objects = everything(stack)
        bound = {subject["name"] for each in of_kind(objects, "RoleBinding") for subject in each["subjects"]}
        pod = template_of(objects)["spec"]
        assert pod["automountServiceAccountToken"] is (pod["serviceAccountName"] in bound)
        assert not any(each["automountServiceAccountToken"] for each in of_kind(objects, "ServiceAccount"))


def replaced(text: str, known: dict[str, str]) -> str:
    """As the kubelet does: ``$(NAME)`` is a variable's value where there is one, ``$$`` is ``$``."""
    return re.sub(r"\$(?:\$|\((\w+)\))", lambda found: known.get(found[1], found[0]) if found[1] else "$", text)


class TestWhatHoldsData:
    @patient
    @any_stack
    def test_belongs_to_nobody_and_declares_no_data(self, stack: Settings) -> None:
        for each in everything(stack):
            assert "ownerReferences" not in each["metadata"]
        for each in kept_objects(stack):
            declared = each.keys() - {"apiVersion", "kind", "metadata"}
            assert declared == ({"spec"} if each["kind"] == "PersistentVolumeClaim" else set())

    @patient
    @any_stack
    def test_is_what_replicas_look_for(self, stack: Settings) -> None:
        found = {
            (each["kind"], each["metadata"]["name"]) for each in [*ha_objects(stack), *persistent_volume_claims(stack)]
        }
        ids = stack.job.names
        store = (
            {("PersistentVolumeClaim", f"{stack.job.cluster}-objects")} if stack.bucket.kind == "incluster" else set()
        )
        if stack.on_volume:
            assert found == {("PersistentVolumeClaim", f"{stack.job.cluster}-ha")} | store
            return
        if stack.in_zookeeper:
            assert found == store
            return
        maps = {("ConfigMap", name) for name in (ids.job_document, ids.replicas, ids.lock)}
        assert found == {*maps, ("Lease", ids.lock), *store}


class TestNames:
    @patient
    @any_stack
    def test_are_names_to_kubernetes(self, stack: Settings) -> None:
        # Made of two ids, and used as names only: there Kubernetes takes 253.
        longer = {stack.job.names.job_document, f"understudy-{stack.namespace}.{stack.job.cluster}"}
        longer |= {each["metadata"]["name"] for each in owners(stack)}
        for each in everything(stack):
            name = each["metadata"]["name"]
            parts = name.split(".") if name in longer else [name]
            assert all(LABEL.fullmatch(part) for part in parts)
            assert len(name) <= (253 if name in longer else 63)
            for value in each["metadata"].get("labels", {}).values():
                assert len(value) <= 63

    @patient
    @any_stack
    def test_are_nobody_else_s(self, stack: Settings) -> None:
        objects = everything(stack)
        assert len({(each["kind"], each["metadata"]["name"]) for each in objects}) == len(objects)

    @patient
    @any_stack
    def test_are_in_the_namespace(self, stack: Settings) -> None:
        for each in everything(stack):
            if each["kind"] not in {"Namespace", "FlowSchema"}:
                assert each["metadata"]["namespace"] == stack.namespace


@patient
@any_stack
def test_nothing_empty_is_declared(stack: Settings) -> None:
    """The API server stores nothing in its place, and takes each apply for a change."""

    def empty(at: str, value: Any) -> list[str]:
        below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if below is None:
            return []
        return [found for key, each in below for found in empty(f"{at}.{key}", each)] if value else [at]

    assert [found for each in everything(stack) for found in empty(each["kind"], each)] == []


@patient
@given(keys=stacks().filter(lambda keys: "bucketAccessKey" in keys))
def test_a_secret_s_values_stand_in_a_secret_only(keys: dict[str, Any]) -> None:
    objects = everything(settings_from(keys))
    (secret,) = of_kind(objects, "Secret")
    assert secret["stringData"] == {
        "AWS_ACCESS_KEY_ID": keys["bucketAccessKey"],
        "AWS_SECRET_ACCESS_KEY": keys["bucketSecretKey"],
    }
    elsewhere = json.dumps([each for each in objects if each is not secret])
    assert not any(value in elsewhere for value in secret["stringData"].values())


@patient
@given(one=SOURCES, other=SOURCES)
def test_another_script_is_another_revision(tmp_path_factory: pytest.TempPathFactory, one: str, other: str) -> None:
    file = tmp_path_factory.getbasetemp() / "job.py"
    file.touch()
    stack = settings_from({**LEAST, "script": "", "scriptFile": str(file)})

    def workload_of(text: str) -> tuple[str, Manifest]:
        file.write_bytes(text.encode())
        (script,) = [each for each in everything(stack) if each.get("immutable")]
        return script["metadata"]["name"], workload(stack, "")["spec"]["template"]

    before, after = workload_of(one), workload_of(other)
    assert (before[0] == after[0]) is (one == other)
    assert (before[1] == after[1]) is (one == other)


class TestExcuses:
    @pytest.mark.parametrize(
        "told",
        [
            {"mode": "native", "bucketSecret": "flights-bucket"},
            {"mode": "standalone", "master": "spark://m:7077"},
            {"networkPolicies": False, "secretEnvironment": {"TOKEN": "flights-api/key"}},
            {"state": "suspended", "networkPolicies": False},
            {"workload": "Job"},
        ],
        ids=" ".join,
    )
    def test_are_for_checks_that_are_on_and_say_why(self, told: dict[str, Any]) -> None:
        found = {
            name.removeprefix(EXCUSE): why
            for each in everything(settings_from({**LEAST, **told}))
            for name, why in each["metadata"].get("annotations", {}).items()
            if name.startswith(EXCUSE)
        }
        assert found.keys() <= set(CHECKS)
        assert found
        for why in found.values():
            assert re.fullmatch(r"[A-Z].{20,}\.", why)

    def test_there_are_none_where_nothing_is_out_of_the_ordinary(self) -> None:
        for each in everything(settings_from(LEAST)):
            assert not each["metadata"].get("annotations")


RELEASE = kubernetes_version().removeprefix("v").rpartition(".")[0]


def refused(manifest: Manifest) -> str:
    """Why the schema refuses it; empty if it doesn't."""
    try:
        kubernetes_validate.validate(manifest, RELEASE, strict=True)
    except kubernetes_validate.ValidationError as error:
        return str(error.message)
    return ""


@settings(parent=patient, max_examples=15)
@any_stack
def test_every_object_fits_its_schema(stack: Settings) -> None:
    for each in everything(stack):
        if each["kind"] != "PodMonitor":  # prometheus-operator's own
            assert refused(each) == "", each


def test_a_field_misspelled_or_of_the_wrong_type_does_not_fit() -> None:
    (deployment,) = of_kind(everything(settings_from(LEAST)), "Deployment")
    assert refused(deployment) == ""
    for change in ({"replica": 2}, {"replicas": "2"}):
        assert refused({**deployment, "spec": {**deployment["spec"], **change}}), change


@any_running_stack
@patient
def test_a_replica_is_told_every_option_that_a_stack_has_a_key_for(stack: Settings) -> None:
    """And understands it: the options are read by the command itself."""
    pod = template_of(everything(stack))["spec"]
    (container,) = pod["containers"]
    name, *words = container["args"]
    command = typer.main.get_command(app)
    assert isinstance(command, typer.core.TyperGroup)
    told = command.commands[name].make_context(name, words).params
    run = stack.run
    takeover, restart, rehearsal = run.takeover, run.restart, run.rehearsal
    assert (told["stop_patience"], told["restart_delay"]) == (takeover.stop_patience, restart.delay)
    assert told["takeover_timeout"] == takeover.timeout
    assert (told["restart_window"], told["restart_attempts"]) == (restart.window, restart.attempts)
    assert told["restart_strategy"] == restart.strategy
    assert (told["rehearse_rounds"], told["rehearse_every"]) == (rehearsal.rounds, rehearsal.every)
    assert (told["rehearse_rows"], told["rehearse_bytes"]) == (rehearsal.rows, rehearsal.bytes)
    assert (told["standby_max_age"], told["tune"]) == (run.standby.max_age, run.spark.tune)
    for group in run.options:
        for key in keys_of(type(group)):
            if key.said.mode in {"", run.mode}:
                assert told[key.option.name] == getattr(group, key.option.field), key.name
    assert pod["terminationGracePeriodSeconds"] == run.termination_grace
