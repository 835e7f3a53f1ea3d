"""A stack whose lock and documents are in ZooKeeper: what its pods are given, what they may do, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main

from infra.manifests.base import Manifest
from infra.render import notes
from infra.settings import settings_from
from testkit.bundle import LEAST
from tests.infra.recorder import outputs
from tests.infra.stacks import everything
from tests.infra.test_builders import names, of_kind, rules_of, template_of
from understudy.cli.main import app
from understudy.documents.zookeeper_address import place_of
from understudy.errors import SettingsError

SERVERS = "zk-0.zk.data.svc:2181,zk-1.zk.data.svc:2181"
FILES = "/etc/understudy/ha"
HA: dict[str, Any] = {"ha": "zookeeper", "haAddress": f"{SERVERS}/understudy"}
SECRET: dict[str, Any] = {**HA, "haAddress": f"{SERVERS}/understudy?digest={FILES}/user", "haSecret": "flights-zk"}

#: The keys of a Secret as cert-manager writes it.
TLS: dict[str, Any] = {
    **HA,
    "haAddress": f"zk-0.zk.data.svc:2281/x?ca={FILES}/ca.crt&certificate={FILES}/tls.crt&key={FILES}/tls.key",
    "haSecret": "flights-tls",
}


def objects(**told: Any) -> list[Manifest]:
    return everything(settings_from({**LEAST, **HA, **told}))


def pods(**told: Any) -> list[Manifest]:
    """Of replicas, and of the Job that brings about a declared state."""
    found = objects(**told)
    return [
        template_of(found)["spec"],
        *(each["spec"]["template"]["spec"] for each in of_kind(found, "Job")),
    ]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("ha", {"ha": "etcd"}, "one of kubernetes, zookeeper"),
    ("haAddress", {"haAddress": f"{SERVERS}/understudy"}, "Set ha to zookeeper"),
    ("haSecret", {"haSecret": "flights-zk"}, "Set ha to zookeeper"),
    ("haAddress", {"ha": "zookeeper"}, "needs the ensemble's address"),
    ("haAddress", {**HA, "haAddress": "zk:two/understudy"}, "no host:port"),
    ("haAddress", {**HA, "haAddress": "zk:2181/a//b"}, "no path of ZooKeeper's"),
    ("haAddress", {**HA, "haAddress": "zk:2181/a?password=x"}, "no option of it"),
    ("haAddress", {**HA, "haAddress": "zk:2181/a?jute.maxbuffer=1"}, "no number of bytes"),
    ("haAddress", {**HA, "haAddress": "zk:2181/a?kerberos=zookeeper"}, "no ticket cache"),
    ("haAddress", {**SECRET, "haAddress": "zk:2181/a?digest=/root/user"}, f"below {FILES}/"),
    ("haAddress", {**SECRET, "haAddress": f"zk:2181/a?ca={FILES}/../ca"}, f"below {FILES}/"),
    ("haAddress", {**TLS, "haAddress": f"zk:2281/a?certificate={FILES}/tls.crt&key={FILES}/tls.key"}, "without ca"),
    (
        "haAddress",
        {**TLS, "haAddress": f"zk:2281/a?ca={FILES}/ca.crt&certificate={FILES}/tls.crt"},
        "one of certificate",
    ),
    (
        "haAddress",
        {**TLS, "haAddress": f"zk:2281/a?ca={FILES}/ca.crt&certificate=/tls.crt&key={FILES}/tls.key"},
        "below",
    ),
    ("haSecret", {**TLS, "haSecret": ""}, "names files (ca, certificate, key)"),
    ("haAddress", {**SECRET, "haAddress": f"zk:2181/a?digest={FILES}/user&sasl={FILES}/user"}, "several of digest"),
    ("haSecret", {**SECRET, "haSecret": ""}, "keys of a Secret"),
    ("haSecret", {**HA, "haSecret": "flights-zk"}, "names no file"),
    ("haSecret", {**SECRET, "haSecret": "Flights_ZK"}, "an object's name"),
    ("lock", {**HA, "lock": "lease"}, "that lock is in the API server"),
    ("lock", {**HA, "lock": "multi"}, "that lock is in the API server"),
    ("ha", {**HA, "workload": "StatefulSet", "replicas": 1}, "documents on a volume"),
    ("flowSchema", {**HA, "flowSchema": True}, "renewals go to ZooKeeper"),
    ("environment", {"environment": {"UNDERSTUDY_HA": "s3"}}, "none of"),
    ("secretEnvironment", {"secretEnvironment": {"UNDERSTUDY_HA_ADDRESS": "a/b"}}, "none of"),
]


@pytest.mark.parametrize(("key", "wrong", "said"), WRONG, ids=[f"{key}-{n}" for n, (key, _, _) in enumerate(WRONG)])
def test_what_contradicts_is_refused_by_its_key_with_a_remedy(key: str, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_from({**LEAST, **wrong})
    assert refused.value.where == f"understudy:{key}"
    assert said in str(refused.value)
    assert refused.value.remedy


class TestPods:
    @pytest.mark.parametrize("told", [{}, SECRET, {"workload": "Job"}, {"mode": "native"}], ids=str)
    def test_are_told_where_documents_are_in_their_environment(
        self, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So each command that is run in one finds them, too."""
        address = told.get("haAddress", HA["haAddress"])
        (container,) = pods(**told)[0]["containers"]
        name, *words = container["args"]
        assert not {"--ha", "--ha-address", "--lock"} & set(words)
        for each in container["env"]:
            if "value" in each:
                monkeypatch.setenv(each["name"], each["value"])
        group = typer.main.get_command(app)
        assert isinstance(group, typer.core.TyperGroup)
        for command in (name, "status", "doctor", "leader", "suspend"):
            params = group.commands[command].make_context(command, words if command == name else []).params
            assert (params["ha"], params["ha_address"]) == ("zookeeper", address)

    def test_have_all_the_same_address_and_the_same_files(self) -> None:
        replica, ensures = pods(**SECRET, state="running")
        for key in ("env", "volumeMounts"):
            ours = [json.dumps(each) for each in ensures["containers"][0][key] if each["name"] != "tmp"]
            assert ours
            assert set(ours) <= {json.dumps(each) for each in replica["containers"][0][key]}
        (volume,) = [each for each in ensures["volumes"] if each["name"] == "ha"]
        assert volume in replica["volumes"]
        assert volume["secret"] == {"secretName": "flights-zk", "defaultMode": 0o440}

    def test_find_the_files_of_tls_where_the_address_names_them(self) -> None:
        """And the supervisor's user may read the key: the group of the pod may."""
        for pod in pods(**TLS, state="running"):
            (volume,) = [each for each in pod["volumes"] if each["name"] == "ha"]
            assert volume["secret"] == {"secretName": "flights-tls", "defaultMode": 0o440}
            assert pod["securityContext"]["fsGroup"]
            for container in pod["containers"]:
                (mount,) = [each for each in container["volumeMounts"] if each["name"] == "ha"]
                (address,) = [each["value"] for each in container["env"] if each["name"] == "UNDERSTUDY_HA_ADDRESS"]
                options = place_of(address).options
                assert {Path(options[each]).parent for each in ("ca", "certificate", "key")} == {
                    Path(mount["mountPath"])
                }
                assert "subPath" not in mount, "a Secret that is replaced would not reach the pod"

    def test_get_no_file_where_the_address_names_none(self) -> None:
        for pod in pods(state="suspended"):
            assert not any("secret" in each for each in pod["volumes"])

    def test_a_dollar_reaches_a_replica_as_it_is(self) -> None:
        (container,) = pods(haAddress="zk:2181/$(HOME)")[0]["containers"]
        assert {"name": "UNDERSTUDY_HA_ADDRESS", "value": "zk:2181/$$(HOME)"} in container["env"]


class TestRights:
    def test_are_none_on_documents_and_locks(self) -> None:
        found = objects()
        assert not names(found, "ConfigMap")
        assert not names(found, "Lease")
        assert {resource for rule in rules_of(found) for resource in rule["resources"]} == {
            "pods",
            "replicasets",
            "events",
        }

    def test_of_the_declared_state_are_none_and_it_has_no_token(self) -> None:
        replica, ensures = pods(state="running")
        assert replica["automountServiceAccountToken"], "a death is the kubelet's word"
        assert not ensures["automountServiceAccountToken"]


class TestTheWayThere:
    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            ("zk-0.zk.data.svc:2181,zk-1.zk.data.svc.cluster.local:2181", [({"data"}, 2181)]),
            ("zookeeper:2181", [({"streaming"}, 2181)]),
            ("192.0.2.7:2181,[2001:db8::7]:2182", [({"192.0.2.7/32"}, 2181), ({"2001:db8::7/128"}, 2182)]),
            ("zk.example.com:2281", [("any", 2281)]),
            ("zk.data.svc:2181,zk.example.com:2181", [("any", 2181)]),
            ("zk.data.svc:2181,zk.more.svc:2181", [({"data", "more"}, 2181)]),
            ("zk.example.com", [("any", 2181)]),
        ],
    )
    def test_is_open_to_the_servers_ports_and_no_further_than_their_names_tell(
        self, address: str, expected: list[tuple[Any, int]]
    ) -> None:
        found = objects(haAddress=f"{address}/understudy", egress=["10.0.0.0/8"], state="running")
        policies = of_kind(found, "NetworkPolicy")
        assert len(policies) == 2
        for each in policies:
            rules = [
                rule for rule in each["spec"]["egress"] if any(port["port"] != 53 for port in rule.get("ports", []))
            ]
            assert [(_peers(rule), port["port"]) for rule in rules for port in rule["ports"]] == expected

    def test_is_not_closed_where_nothing_is(self) -> None:
        assert not any("egress" in each["spec"] for each in of_kind(objects(), "NetworkPolicy"))


def _peers(rule: Manifest) -> Any:
    if "to" not in rule:
        return "any"
    blocks = {each["ipBlock"]["cidr"] for each in rule["to"] if "ipBlock" in each}
    spaces = [each["namespaceSelector"]["matchLabels"] for each in rule["to"] if "namespaceSelector" in each]
    return blocks | {each["kubernetes.io/metadata.name"] for each in spaces}


def test_fractions_of_seconds_fit_into_its_lock() -> None:
    assert settings_from({**LEAST, **HA, "timings": {"lease": 20.5}}).run.timings == {"lease": "20.5"}


def test_status_is_asked_in_a_pod() -> None:
    told = outputs(**HA, context="kind-kind")
    assert told["status"] == (
        "kubectl --context kind-kind -n streaming exec $(kubectl --context kind-kind -n streaming get pods"
        " -l understudy.dev/cluster=flights --field-selector status.phase=Running -o name | tail -n 1) -- understudy status --cluster-id flights"
    )
    assert told["haObjects"] == []


def test_what_has_to_be_there_besides_is_said() -> None:
    assert "the Secret flights-tls with ca.crt and tls.crt and tls.key" in notes(settings_from({**LEAST, **TLS}))
    said = notes(settings_from({**LEAST, **SECRET, "bucketSecret": "keys"}))
    assert f"the path /understudy in ZooKeeper {SERVERS}" in said
    assert "the Secret flights-zk with user" in said
