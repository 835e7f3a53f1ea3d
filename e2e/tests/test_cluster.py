"""The cluster the other tests stand on: is it what Kubernetes promises, and does it come and go without a trace?"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.choice import is_ready, takes_pods
from e2e.harness import manifests
from e2e.harness.footprint import footprint, grown
from e2e.harness.kubectl import Cluster, Failed, await_value

NODES = ("node1", "node2", "node3")


def nodes(cluster: Cluster, that: Callable[[Mapping[str, Any]], bool]) -> set[str]:
    return {node["metadata"]["name"] for node in cluster.get("default", "nodes")["items"] if that(node)}


def pod_address(cluster: Cluster, namespace: str, name: str) -> str:
    cluster.await_ready(namespace, f"pod/{name}")
    return str(cluster.get(namespace, "pod", name)["status"]["podIP"])


@pytest.fixture(scope="module")
def served(cluster: Cluster, namespace: str) -> str:
    """A Service with one pod behind it; returns its name in DNS."""
    cluster.apply(namespace, manifests.pod("served", ["serve", "8080"]), manifests.service("greeting", 8080, "served"))
    cluster.await_ready(namespace, "pod/served")
    return f"greeting.{namespace}.svc.cluster.local"


@pytest.fixture(scope="module")
def far(cluster: Cluster, namespace: str) -> str:
    """The address of a pod on node 3, which answers."""
    if not cluster.local:  # it is made before a test's mark is looked at
        pytest.skip("wants the local cluster's node 3")
    cluster.apply(namespace, manifests.pod("far", ["serve", "8080"], node="node3"))
    return pod_address(cluster, namespace, "far")


@pytest.mark.rebuilds_cluster
@pytest.mark.machines
def test_the_cluster_goes_without_a_trace_and_comes_again(cluster: Cluster) -> None:
    before = json.loads(Path(os.environ["E2E_FOOTPRINT"]).read_text(encoding="utf-8"))
    assert grown(before, footprint()), "a running cluster can be seen, or this test sees nothing"

    cluster.machine("down")
    after = footprint()
    for command in (["down"], ["up", "3"], ["up", "3"]):
        cluster.machine(*command)

    assert grown(before, after) == {}
    for kind in ("links", "routes", "firewall", "sysctls", "cgroups"):
        assert before[kind] == after[kind]
    assert nodes(cluster, is_ready) == set(NODES)


def test_at_least_three_nodes_are_ready(cluster: Cluster) -> None:
    if not (cluster.local or cluster.owned):
        pytest.skip("a cluster that was given has the nodes it has")
    assert len(nodes(cluster, is_ready)) >= 3


class TestANetwork:
    def test_a_pod_finds_a_service_by_its_names(self, cluster: Cluster, namespace: str, served: str) -> None:
        address = cluster.get(namespace, "service", "greeting")["spec"]["clusterIP"]

        for number, name in enumerate((served, f"greeting.{namespace}", "greeting")):
            asked = cluster.run_pod(namespace, f"ask-{number}", "resolve", name)
            assert (asked.status, asked.output.split()) == (0, [address]), name

    def test_a_name_that_nobody_has_is_not_found(self, cluster: Cluster, namespace: str) -> None:
        assert cluster.run_pod(namespace, "ask-unknown", "resolve", "unknown").status == 1

    def test_a_service_answers_on_every_node_that_takes_pods(
        self, cluster: Cluster, namespace: str, served: str
    ) -> None:
        for node in sorted(nodes(cluster, takes_pods)):
            asked = cluster.run_pod(namespace, f"get-{node}", "get", f"http://{served}:8080/", node=node)
            assert (asked.status, asked.output.split()) == (0, ["200", "served"]), node


class TestPermissions:
    URL = "https://kubernetes.default.svc/api/v1/namespaces/{}/configmaps"

    def ask(self, cluster: Cluster, namespace: str, name: str, account: str) -> tuple[int, dict[str, Any]]:
        asked = cluster.run_pod(namespace, name, "get", self.URL.format(namespace), account=account)
        assert asked.status == 0, asked.output
        status, _, body = asked.output.partition("\n")
        return int(status), json.loads(body)

    def await_permission(self, cluster: Cluster, namespace: str, account: str) -> None:
        """The API server hears of a new Role a moment after it has taken it."""
        who = f"--as=system:serviceaccount:{namespace}:{account}"

        def allowed() -> bool | None:
            with suppress(Failed):  # how it says no
                cluster.kubectl("auth", "can-i", "list", "configmaps", "--namespace", namespace, who)
                return True
            return None

        await_value(allowed, 60, f"{account} may list nothing")

    def test_a_service_account_without_rights_is_forbidden_and_told_what_it_lacks(
        self, cluster: Cluster, namespace: str
    ) -> None:
        cluster.apply(namespace, manifests.account("unprivileged"))

        status, body = self.ask(cluster, namespace, "forbidden", "unprivileged")

        assert status == 403
        assert f"system:serviceaccount:{namespace}:unprivileged" in body["message"]
        assert 'cannot list resource "configmaps"' in body["message"]

    def test_a_role_grants_exactly_what_it_names(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(namespace, manifests.account("reader"))
        cluster.kubectl("create", "role", "reader", "--namespace", namespace, "--verb=list", "--resource=configmaps")
        bound = f"--serviceaccount={namespace}:reader"
        cluster.kubectl("create", "rolebinding", "reader", "--namespace", namespace, "--role=reader", bound)
        self.await_permission(cluster, namespace, "reader")

        status, body = self.ask(cluster, namespace, "allowed", "reader")

        assert status == 200
        assert [item["metadata"]["name"] for item in body["items"]] == ["kube-root-ca.crt"]

    def test_a_pod_that_is_not_restricted_is_refused(self, cluster: Cluster, namespace: str) -> None:
        pod = manifests.pod("careless", ["serve", "8080"])
        pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}

        with pytest.raises(Failed, match="violates PodSecurity"):
            cluster.apply(namespace, pod)


@pytest.mark.machines
def test_a_container_killed_from_outside_ends_with_its_last_words(cluster: Cluster, namespace: str) -> None:
    cluster.apply(namespace, manifests.pod("speaker", ["say", "leader 5f1c"], restart="Never"))
    cluster.await_ready(namespace, "pod/speaker")
    await_value(lambda: "said" in cluster.kubectl("logs", "-n", namespace, "speaker") or None, 60, "nothing was said")

    cluster.machine("kill", f"{namespace}/speaker")

    def ended() -> dict[str, Any] | None:
        (container,) = cluster.get(namespace, "pod", "speaker")["status"]["containerStatuses"]
        found: dict[str, Any] | None = container["state"].get("terminated")
        return found

    terminated = await_value(ended, 60, "the kubelet did not report it")
    assert terminated["exitCode"] == 137
    assert terminated["message"] == "leader 5f1c"


@pytest.mark.machines
class TestMachines:
    @pytest.fixture(autouse=True)
    def _whole_again(self, cluster: Cluster) -> Iterator[None]:
        yield
        cluster.machine("thaw-api")
        cluster.machine("revive", "3")
        cluster.machine("heal", "3")

    def reaches(self, cluster: Cluster, namespace: str, name: str, address: str) -> bool:
        return cluster.run_pod(namespace, name, "get", f"http://{address}:8080/", node="node2").status == 0

    def test_a_cut_node_is_out_of_reach_until_it_is_healed(self, cluster: Cluster, namespace: str, far: str) -> None:
        assert self.reaches(cluster, namespace, "before", far)

        cluster.machine("cut", "3")
        assert not self.reaches(cluster, namespace, "while", far)

        cluster.machine("heal", "3")
        assert self.reaches(cluster, namespace, "after", far)

    def test_a_frozen_api_server_answers_nobody_and_then_as_before(self, cluster: Cluster, namespace: str) -> None:
        cluster.machine("freeze-api")
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.kubectl("get", "pods", "--namespace", namespace, timeout=3)

        cluster.machine("thaw-api")
        assert cluster.get(namespace, "configmaps")["items"]

    def test_a_crashed_node_comes_back_with_its_images_and_pods(
        self, cluster: Cluster, namespace: str, far: str
    ) -> None:
        restarts = cluster.get(namespace, "pod", "far")["status"]["containerStatuses"][0]["restartCount"]

        cluster.machine("crash", "3")
        assert not self.reaches(cluster, namespace, "dark", far)
        cluster.machine("revive", "3")

        def again() -> str | None:
            (container,) = cluster.get(namespace, "pod", "far")["status"]["containerStatuses"]
            return "yes" if container["restartCount"] > restarts and "running" in container["state"] else None

        await_value(again, 60, "the pod did not come back")
        address = pod_address(cluster, namespace, "far")
        began = time.monotonic()
        looks = itertools.count()  # the pod of the last look may still be on its way out
        while not self.reaches(cluster, namespace, f"light-{next(looks)}", address):
            assert time.monotonic() - began < 60
