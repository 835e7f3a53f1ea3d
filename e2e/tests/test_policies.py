"""Network policies, in a cluster whose network enforces them: who reaches a job's pods, and whom those reach.

kind's own network enforces them; where nothing does, as in the local cluster or minikube's default, these tests are skipped.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from ipaddress import ip_address
from typing import Any

import pytest

from e2e.harness import images, manifests
from e2e.harness.heartbeat import CLUSTER, Heartbeat, heartbeat
from e2e.harness.kubectl import Cluster, Failed, await_value

#: Where a stranger runs, and where the reader of metrics runs.
STRANGER, SCRAPER = "e2e-stranger", "e2e-scraper"
PROBES = 8080
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3); print('reached')"
#: The ports that a container's processes listen on, from the kernel's own tables.
LISTENING = """
for line in (line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]):
    if line[3] == "0A": print(int(line[1].rpartition(":")[2], 16))
"""


@pytest.fixture(scope="module")
def places(another_namespace: Callable[[str], AbstractContextManager[str]]) -> Iterator[dict[str, str]]:
    """Namespaces by what they are for. A fixture of their own: when pods do not start there, evidence still finds them."""
    with ExitStack() as made:
        yield {
            role: made.enter_context(another_namespace(f"{role}-{secrets.token_hex(2)}"))
            for role in (STRANGER, SCRAPER)
        }


@pytest.fixture(scope="module")
def outsiders(cluster: Cluster, places: dict[str, str]) -> dict[str, str]:
    """The same, with one pod each, ``pod``, which serves HTTP on port 8000."""
    cluster.load(images.saved(images.UNDERSTUDY))
    for name in places.values():
        cluster.apply(name, visitor())
    for name in places.values():
        cluster.await_ready(name, "pod/pod")
    return places


def visitor() -> dict[str, Any]:
    made = manifests.pod("pod", ())
    (container,) = made["spec"]["containers"]
    container |= {"image": images.UNDERSTUDY, "imagePullPolicy": "Never"}
    container["command"] = ["python3", "-m", "http.server", "8000", "--directory", "/opt"]
    return made


@pytest.fixture(scope="module")
def enforced(cluster: Cluster, outsiders: dict[str, str]) -> None:
    """Skip where a policy that lets no client in is not enforced; but kind's network enforces them: there that is a failure."""
    stranger, scraper = outsiders[STRANGER], outsiders[SCRAPER]
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny-all"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }
    assert reaches(cluster, stranger, "pod", address(cluster, scraper, "pod"), 8000)
    cluster.apply(scraper, policy)
    try:
        await_value(
            lambda: not reaches(cluster, stranger, "pod", address(cluster, scraper, "pod"), 8000) or None, 20, "open"
        )
    except AssertionError:
        if cluster.context.startswith("kind-"):
            raise
        pytest.skip("nothing in this cluster enforces network policies")
    finally:
        cluster.kubectl("delete", "networkpolicy", "deny-all", "-n", scraper)


@pytest.fixture(scope="module")
def job(cluster: Cluster, outsiders: dict[str, str], enforced: None) -> Iterator[Heartbeat]:  # noqa: ARG001
    """In native mode, kept from everything but the API server, with a standby that has rehearsed."""
    over: dict[str, Any] = {
        "mode": "native",
        "executors": 1,
        "executorMemory": "512m",
        "metricsFrom": outsiders[SCRAPER],
        "egress": api_server(cluster),
    }
    with heartbeat(cluster, **over) as made:
        made.stack.up(made.given)
        made.status(r"rounds, \d+ s ago", 300)
        yield made


def api_server(cluster: Cluster) -> list[str]:
    """CIDRs of its Service and of what is behind it."""
    service = cluster.get("default", "service", "kubernetes")["spec"]["clusterIP"]
    slices = cluster.get("default", "endpointslices", "-l", "kubernetes.io/service-name=kubernetes")["items"]
    behind = [found for each in slices for endpoint in each["endpoints"] for found in endpoint["addresses"]]
    return [f"{each}/{ip_address(each).max_prefixlen}" for each in (service, *behind)]


def reaches(cluster: Cluster, namespace: str, pod: str, address: str, port: int) -> bool:
    """Whether the pod gets a connection there within three seconds."""
    command = ["exec", "-n", namespace, pod, "--", "python3", "-c", CONNECT, address, str(port)]
    try:
        return "reached" in cluster.kubectl(*command)
    except Failed as refused:
        if not any(error in refused.said for error in ("TimeoutError", "ConnectionRefusedError", "No route to host")):
            raise
        return False


def address(cluster: Cluster, namespace: str, pod: str) -> str:
    return str(cluster.get(namespace, "pod", pod)["status"]["podIP"])


def executor(job: Heartbeat) -> str:
    """The name of one that runs."""
    pods = job.cluster.get(job.namespace, "pods", "-l", f"understudy.dev/executor-of={CLUSTER}")["items"]
    living = [pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]
    return str(living[0]["metadata"]["name"])


def ports(job: Heartbeat, pod: str) -> set[int]:
    said = job.cluster.kubectl("exec", "-n", job.namespace, pod, "--", "python3", "-c", LISTENING)
    return {int(line) for line in said.split()}


def test_the_job_goes_on_behind_its_policies(job: Heartbeat) -> None:
    before = len(job.beats())
    await_value(lambda: len(job.beats()) > before + 30 or None, 120, "no replica goes on", interval=2.0)


def test_a_stranger_reaches_no_port_of_replicas_or_executors(job: Heartbeat, outsiders: dict[str, str]) -> None:
    for pod in (job.leader(), executor(job)):
        open_ports = ports(job, pod)
        assert open_ports
        at = address(job.cluster, job.namespace, pod)
        assert not [each for each in open_ports if reaches(job.cluster, outsiders[STRANGER], "pod", at, each)], pod


def test_who_reads_metrics_reaches_them_and_nothing_else(job: Heartbeat, outsiders: dict[str, str]) -> None:
    leader = job.leader()
    at = address(job.cluster, job.namespace, leader)
    reached = {port for port in ports(job, leader) if reaches(job.cluster, outsiders[SCRAPER], "pod", at, port)}
    assert reached == {PROBES}


def test_replicas_reach_nothing_outside_but_what_they_are_told(job: Heartbeat, outsiders: dict[str, str]) -> None:
    there = address(job.cluster, outsiders[STRANGER], "pod")
    for pod in (job.leader(), executor(job)):
        assert not reaches(job.cluster, job.namespace, pod, there, 8000), pod
    (server, _) = api_server(job.cluster)[0].split("/")
    assert reaches(job.cluster, job.namespace, job.leader(), server, 443)


def test_it_is_the_policies_that_keep_strangers_out(job: Heartbeat, outsiders: dict[str, str]) -> None:
    policies = job.cluster.get(job.namespace, "networkpolicies")["items"]
    own = [each for each in policies if CLUSTER in json.dumps(each["spec"]["podSelector"])]
    assert own
    for each in own:
        job.cluster.kubectl("delete", "networkpolicy", each["metadata"]["name"], "-n", job.namespace)
    stranger = outsiders[STRANGER]
    there = address(job.cluster, stranger, "pod")
    for pod in (job.leader(), executor(job)):
        at = address(job.cluster, job.namespace, pod)
        await_value(
            lambda pod=pod: reaches(job.cluster, job.namespace, pod, there, 8000) or None,  # type: ignore[misc]
            30,
            f"{pod} still reaches no other pod",
        )
        found = [each for each in ports(job, pod) if reaches(job.cluster, stranger, "pod", at, each)]
        assert found, f"no client reaches {pod}, even one that its policies let in"
