"""What the bundle makes, before anything runs: the API server takes it, kube-linter has nothing against it, and a repository that
a cluster follows can be applied, applied again and pruned."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2e.cluster.layout import REPOSITORY
from e2e.harness.kubectl import Cluster, Failed
from e2e.harness.linter import Linter
from infra.manifests.base import Manifest
from infra.manifests.everything import kept_objects, passing_objects
from infra.manifests.ha import namespace as restricted_namespace
from infra.manifests.object_store import endpoint_of
from infra.render import NEVER_PRUNED, as_yaml, stack_settings
from infra.settings import Settings, settings_from
from testkit.bundle import LEAST

#: What is set over the least that a stack says; beside them, the stacks of the repository.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "the least": {},
    "one replica": {"replicas": 1},
    "native": {"mode": "native", "bucketSecret": "flights-bucket", "environment": {"A": "b"}},
    "standalone": {"mode": "standalone", "master": "spark://m:7077"},
    "StatefulSet": {"workload": "StatefulSet", "replicas": 1, "storageClass": "block"},
    "Job": {"workload": "Job", "activeDeadline": 3600},
    "Job, one replica": {"workload": "Job", "replicas": 1},
    "Job, native": {"workload": "Job", "mode": "native", "egress": ["10.0.0.0/8"]},
    "CronJob": {"workload": "CronJob", "schedule": "0 * * * *", "timeZone": "Europe/Berlin"},
    "CronJob by hand": {"workload": "CronJob", "schedule": "none"},
    "lock configmap": {"lock": "configmap"},
    "lock multi": {"lock": "multi"},
    "zookeeper": {
        "ha": "zookeeper",
        "haAddress": "zk-0.zk.data.svc:2181,zk.example.com:2281/understudy?digest=/etc/understudy/ha/user",
        "haSecret": "flights-zookeeper",
        "state": "running",
        "egress": ["10.0.0.0/8"],
    },
    "egress": {"egress": ["10.0.0.0/8", "2001:db8::/32"]},
    "egress, native": {"egress": ["10.0.0.0/8"], "mode": "native"},
    "declared suspended": {"state": "suspended"},
    "declared running": {"state": "running", "egress": ["10.0.0.0/8"]},
    "no policies": {"networkPolicies": False},
    "scriptFile": {"script": "", "scriptFile": "examples/flights.py"},
    "submitted": {"script": "", "submitted": True, "haStorage": True},
    "flowSchema": {"flowSchema": True},
    "workloadIdentity": {"workloadIdentity": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/flights"}},
    "secretEnvironment": {"secretEnvironment": {"API_KEY": "flights-api/key"}},
    "keys": {"bucketAccessKey": "AKIA", "bucketSecretKey": "shh"},
    "texts like numbers": {"environment": {"A": "1e3", "B": "y", "C": "0o17"}, "arguments": ["1e3", "n"]},
    "watched": {"podMonitor": True, "metricsFrom": "monitoring"},
    "placed": {
        "spread": "required",
        "priorityClass": "streaming",
        "nodeSelector": {"disk": "ssd"},
        "imagePullSecrets": ["registry"],
    },
    "production": {
        "production": True,
        "replicas": 3,
        "podMonitor": True,
        "metricsFrom": "monitoring",
        "flowSchema": True,
    },
}
STACKS = ("dev", "hourly", "prod")


def variant(name: str, namespace: str) -> Settings:
    if name in STACKS:
        return stack_settings(name, {"namespace": namespace})
    return settings_from({**LEAST, **VARIANTS[name], "namespace": namespace})


def objects_of(stack: Settings) -> list[Manifest]:
    return [*kept_objects(stack), *passing_objects(stack, endpoint_of(stack))]


each_variant = pytest.mark.parametrize("name", [*STACKS, *VARIANTS])


# The API server.


@pytest.fixture(scope="module")
def restricted(cluster: Cluster, namespace: str) -> str:
    """The module's namespace, with all that the bundle says of one it makes: workloads are warned of, as pods are refused."""
    made = restricted_namespace(variant("the least", namespace))
    cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=json.dumps(made))
    return namespace


def dry_run(cluster: Cluster, objects: list[Manifest]) -> str:
    """Raises ``Failed`` for what is refused, and for any warning."""
    options = ["--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--warnings-as-errors"]
    return cluster.kubectl("apply", *options, "--filename", "-", stdin=as_yaml(objects))


@each_variant
@pytest.mark.usefixtures("operator_kinds")
def test_the_api_server_takes_every_object_without_a_warning(cluster: Cluster, restricted: str, name: str) -> None:
    objects = objects_of(variant(name, restricted))

    said = dry_run(cluster, objects)

    assert said.count("serverside-applied (server dry run)") == len(objects)


def privileged(objects: list[Manifest]) -> None:
    for each in objects:
        if each["kind"] in {"Deployment", "StatefulSet"}:
            context = each["spec"]["template"]["spec"]["containers"][0]["securityContext"]
            context |= {"privileged": True, "allowPrivilegeEscalation": True}


def misspelled(objects: list[Manifest]) -> None:
    for each in objects:
        if each["kind"] == "PodDisruptionBudget":
            each["spec"]["maxUnavailabel"] = each["spec"].pop("maxUnavailable")


def with_a_wildcard(objects: list[Manifest]) -> None:
    for each in objects:
        if each["kind"] == "Role":
            each["rules"][0]["verbs"] = ["*"]


def without_its_excuses(objects: list[Manifest]) -> None:
    for each in objects:
        each["metadata"].pop("annotations", None)


Change = Callable[[list[Manifest]], None]


def changed(stack: Settings, change: Change) -> list[Manifest]:
    objects = copy.deepcopy(objects_of(stack))
    change(objects)
    assert objects != objects_of(stack)
    return objects


@pytest.mark.parametrize(
    ("change", "said"),
    [(privileged, "would violate PodSecurity"), (misspelled, "spec.maxUnavailabel: field not declared")],
)
def test_what_it_would_not_take_is_seen(cluster: Cluster, restricted: str, change: Change, said: str) -> None:
    with pytest.raises(Failed, match=said):
        dry_run(cluster, changed(variant("the least", restricted), change))


# kube-linter.


@each_variant
def test_kube_linter_has_nothing_against_it(linter: Linter, name: str) -> None:
    assert linter.findings(objects_of(variant(name, "streaming"))) == []


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("the least", privileged, ["privilege-escalation-container Deployment", "privileged-container Deployment"]),
        ("the least", with_a_wildcard, ["wildcard-in-rules Role"]),
        (
            "native",
            without_its_excuses,
            [
                "access-to-create-pods RoleBinding",
                "dangling-networkpolicy NetworkPolicy",
                "dangling-networkpolicypeer-podselector NetworkPolicy",
                "env-value-from Deployment",
                "read-secret-from-env-var Deployment",
            ],
        ),
        ("no policies", without_its_excuses, ["non-isolated-pod Deployment"]),
        ("standalone", without_its_excuses, ["non-isolated-pod Deployment"]),
        ("keys", without_its_excuses, ["read-secret-from-env-var Deployment"]),
        ("Job", without_its_excuses, ["restart-policy Job"]),
        ("CronJob", without_its_excuses, ["restart-policy CronJob"]),
    ],
)
def test_kube_linter_finds_what_is_wrong_and_what_is_only_excused(
    linter: Linter, name: str, change: Change, found: list[str]
) -> None:
    assert linter.findings(changed(variant(name, "streaming"), change)) == found


# A cluster that follows a repository.


@dataclass(frozen=True, slots=True)
class Repository:
    """What ``make render`` printed, and a tool that makes the cluster follow it."""

    cluster: Cluster
    text: str

    @property
    def objects(self) -> list[Manifest]:
        return list(yaml.safe_load_all(self.text))

    def apply(self) -> None:
        options = ["--server-side", "--field-manager=gitops", "--warnings-as-errors"]
        self.cluster.kubectl("apply", *options, "--filename", "-", stdin=self.text)

    def prune(self) -> None:
        """As when all of it is gone from the repository. Argo CD and Flux leave what says so, and delete the rest."""
        passing = [each for each in self.objects if not marks(each)]
        self.cluster.kubectl("delete", "--wait", "--filename", "-", stdin=as_yaml(passing), timeout=90)

    def live(self) -> dict[str, Manifest]:
        """Those of these objects that exist, by kind and name."""
        said = self.cluster.kubectl("get", "--ignore-not-found", "--output=json", "--filename", "-", stdin=self.text)
        found = json.loads(said) if said.strip() else {"items": []}
        return {key(each): each for each in found["items"]}


def key(manifest: Manifest) -> str:
    return f"{manifest['kind'].lower()}/{manifest['metadata']['name']}"


def marks(manifest: Manifest) -> dict[str, str]:
    """What Argo CD and Flux read."""
    annotations = manifest["metadata"].get("annotations", {})
    return {name: value for name, value in annotations.items() if name in NEVER_PRUNED}


def versions(objects: Mapping[str, Manifest]) -> dict[str, tuple[str, Any]]:
    """Which object it is, and how often it has been changed: by its generation where controllers write a status into it."""
    found = {name: each["metadata"] for name, each in objects.items()}
    return {name: (each["uid"], each.get("generation") or each["resourceVersion"]) for name, each in found.items()}


@pytest.fixture(scope="module")
def repository(cluster: Cluster, restricted: str) -> Repository:
    """The first stack. Its drivers never start: the Secret that ``make render`` names as needed is not there."""
    told = [f"namespace={restricted}", "image=understudy-flights:dev", "imagePullPolicy=Never", "cpu=50m"]
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "hooks")])
    done = subprocess.run(
        [sys.executable, "-m", "infra.render", "dev", *told],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Repository(cluster, done.stdout)


class TestARepositoryThatAClusterFollows:
    DOCUMENTS = ("configmap/heartbeat-heartbeat", "configmap/heartbeat-replicas")
    LOCK = "lease/heartbeat-lock"

    def kept(self, namespace: str) -> set[str]:
        others = "configmap/heartbeat-lock", "persistentvolumeclaim/heartbeat-objects"
        return {f"namespace/{namespace}", *self.DOCUMENTS, self.LOCK, *others}

    def test_what_holds_data_carries_both_marks_and_nothing_else_does(
        self, repository: Repository, restricted: str
    ) -> None:
        repository.apply()
        live = repository.live()
        assert live.keys() == {key(each) for each in repository.objects}
        for name, each in live.items():
            assert marks(each) == (NEVER_PRUNED if name in self.kept(restricted) else {}), name

    def test_the_same_text_again_changes_nothing(self, repository: Repository) -> None:
        repository.apply()
        before = repository.live()

        repository.apply()

        assert versions(repository.live()) == versions(before)

    def test_pruning_leaves_what_drivers_wrote_and_the_next_text_finds_it(
        self, cluster: Cluster, repository: Repository, restricted: str
    ) -> None:
        repository.apply()
        before, kept = repository.live(), self.kept(restricted)
        for name in self.DOCUMENTS:
            write(cluster, restricted, name, {"data": {"written": "by a driver"}})
        write(cluster, restricted, self.LOCK, {"spec": {"holderIdentity": "a driver", "leaseTransitions": 7}})
        written = repository.live()

        repository.prune()
        left = repository.live()
        repository.apply()
        after = repository.live()

        assert left.keys() == kept
        assert versions(left) == versions({name: written[name] for name in kept})
        assert after.keys() == before.keys()
        for name, each in after.items():
            assert (each["metadata"]["uid"] == before[name]["metadata"]["uid"]) is (name in kept), name
        assert all(after[name]["data"] == {"written": "by a driver"} for name in self.DOCUMENTS)
        assert after[self.LOCK]["spec"] == {"holderIdentity": "a driver", "leaseTransitions": 7}


def write(cluster: Cluster, namespace: str, name: str, change: Mapping[str, Any]) -> None:
    options = ["--namespace", namespace, "--type=merge", "--field-manager=understudy"]
    cluster.kubectl("patch", name, *options, "--patch", json.dumps(change))
