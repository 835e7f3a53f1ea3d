"""Each chart installed, used, and taken away again; ``test_charts_rendered.py`` has what takes no cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from e2e.harness import images, manifests
from e2e.harness.helm import Helm, Values
from e2e.harness.kubectl import Cluster, Failed, await_value
from e2e.harness.objects import Bucket
from e2e.harness.volumes import volumes

#: Waiting for pods, in seconds: three JVMs may start at once on two busy cores.
PATIENCE = 240.0


def readiness(cluster: Cluster, namespace: str, pod: str, *, not_this: str = "") -> str | None:
    """Its UID, once it is ready and another than the one that was there before."""
    try:
        found = cluster.get(namespace, "pod", pod)
    except Failed:
        return None
    conditions = found["status"].get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    uid = str(found["metadata"]["uid"])
    return uid if ready and uid != not_this and "deletionTimestamp" not in found["metadata"] else None


def await_ready(cluster: Cluster, namespace: str, pod: str, *, not_this: str = "") -> str:
    return await_value(
        lambda: readiness(cluster, namespace, pod, not_this=not_this), PATIENCE, f"{pod} is not ready", interval=1.0
    )


def replace_pod(cluster: Cluster, namespace: str, pod: str) -> None:
    """Deleted, and there again, as another one of the same name."""
    before = await_ready(cluster, namespace, pod)
    cluster.kubectl("delete", "pod", "--namespace", namespace, pod, "--wait=false")
    await_ready(cluster, namespace, pod, not_this=before)


def there(cluster: Cluster, namespace: str, *what: str) -> bool:
    return bool(cluster.kubectl("get", "--namespace", namespace, *what, "--ignore-not-found", "--output=name").strip())


def await_gone(cluster: Cluster, namespace: str, *what: str) -> None:
    await_value(
        lambda: None if there(cluster, namespace, *what) else True, 90, f"{' '.join(what)} is still there", interval=1.0
    )


@pytest.fixture(scope="module")
def common(cluster: Cluster) -> Values:
    """What two charts are told here: an image that this machine could make, and in the local cluster the node that has it."""
    cluster.load(images.companions(), nodes=[1])
    name, _, tag = images.COMPANIONS.partition(":")
    return {
        "image": {"repository": name, "tag": tag, "pullPolicy": "Never"},
        "nodeSelector": {"kubernetes.io/hostname": "node1"} if cluster.local else {},
        "resources": {"requests": {"cpu": "20m", "memory": "200Mi"}},
    }


@pytest.fixture(scope="module")
def storage(cluster: Cluster, namespace: str) -> Iterator[Values]:
    """For one object store, three servers, and one more."""
    with volumes(cluster, namespace, 5) as storage_class:
        yield {"storageClass": storage_class, "size": "200Mi"}


class TestAnObjectStore:
    """One after the other, as in its life."""

    POD, CLAIM = "objects-object-store-0", "objects-object-store"

    @pytest.fixture(scope="class")
    @classmethod
    def keys(cls) -> Mapping[str, str]:
        return {"accessKey": "understudy", "secretKey": secrets.token_hex(16)}

    @pytest.fixture(scope="class")
    @classmethod
    def values(
        cls, cluster: Cluster, namespace: str, helm: Helm, common: Values, storage: Values, keys: Mapping[str, str]
    ) -> Values:
        """Installed with these."""
        values = {**common, "credentials": keys, "buckets": ["first"], "persistence": storage}
        helm.install(cluster, namespace, "objects", "object-store", values)
        await_ready(cluster, namespace, cls.POD)
        return values

    @contextmanager
    def bucket(self, cluster: Cluster, namespace: str, values: Values, name: str = "first") -> Iterator[Bucket]:
        keys = values["credentials"]["accessKey"], values["credentials"]["secretKey"]
        if cluster.local:
            pod = cluster.get(namespace, "pod", self.POD)
            yield Bucket(7070, name, *keys, pod["status"]["podIP"])
            return
        with cluster.forward(namespace, "objects-object-store", 7070) as port:
            yield Bucket(port, name, *keys)

    def test_objects_are_put_into_a_bucket_that_it_has_made(
        self, cluster: Cluster, namespace: str, values: Values
    ) -> None:
        with self.bucket(cluster, namespace, values) as bucket:
            bucket.put("a/kept", b"as it was")
            assert bucket.get("a/kept") == b"as it was"
            assert bucket.names() == ["a/kept"]

    @pytest.mark.usefixtures("values")
    def test_pods_find_it_by_name(self, cluster: Cluster, namespace: str) -> None:
        asked = cluster.run_pod(
            namespace, "health", "get", f"http://objects-object-store.{namespace}.svc:7070/_/health"
        )
        assert asked.output.splitlines()[:1] == ["200"], asked

    def test_objects_outlive_the_pod(self, cluster: Cluster, namespace: str, values: Values) -> None:
        replace_pod(cluster, namespace, self.POD)
        with self.bucket(cluster, namespace, values) as bucket:
            assert bucket.get("a/kept") == b"as it was"

    def test_an_upgrade_brings_another_bucket_and_versions(
        self, cluster: Cluster, namespace: str, helm: Helm, values: Values
    ) -> None:
        before = await_ready(cluster, namespace, self.POD)
        more = {**values, "buckets": ["first", "second"], "versioning": {"enabled": True}}
        helm.upgrade(cluster, namespace, "objects", "object-store", more)
        await_ready(cluster, namespace, self.POD, not_this=before)
        with self.bucket(cluster, namespace, values, "second") as bucket:
            bucket.keep_versions()
            bucket.put("twice", b"once")
            bucket.put("twice", b"and again")
            assert (bucket.get("twice"), bucket.versions("twice")) == (b"and again", 2)
        with self.bucket(cluster, namespace, values) as bucket:
            assert bucket.get("a/kept") == b"as it was"

    def test_objects_outlive_the_release(
        self, cluster: Cluster, namespace: str, helm: Helm, values: Values, keys: Mapping[str, str]
    ) -> None:
        helm.uninstall(cluster, namespace, "objects")
        await_gone(cluster, namespace, "pod", self.POD)
        assert there(cluster, namespace, "persistentvolumeclaim", self.CLAIM)

        theirs = {"AWS_ACCESS_KEY_ID": keys["accessKey"], "AWS_SECRET_ACCESS_KEY": keys["secretKey"]}
        cluster.apply(namespace, manifests.secret("theirs", theirs))
        again = {**values, "credentials": {"existingSecret": "theirs"}}
        helm.install(cluster, namespace, "objects", "object-store", again)
        await_ready(cluster, namespace, self.POD)
        with self.bucket(cluster, namespace, values) as bucket:
            assert bucket.get("a/kept") == b"as it was"

    def test_a_claim_that_is_not_to_be_kept_goes(
        self, cluster: Cluster, namespace: str, helm: Helm, values: Values, storage: Values
    ) -> None:
        loose = {
            **values,
            "credentials": {"existingSecret": "theirs"},
            "persistence": {**storage, "keep": False},
        }
        helm.upgrade(cluster, namespace, "objects", "object-store", loose)
        helm.uninstall(cluster, namespace, "objects")
        await_gone(cluster, namespace, "persistentvolumeclaim", self.CLAIM)


class TestZooKeeper:
    """One after the other, too."""

    SERVERS = tuple(f"zookeeper-{number}" for number in range(3))
    SINGLE = "single-zookeeper-0"

    @pytest.fixture(scope="class")
    @classmethod
    def values(cls, common: Values, storage: Values) -> Values:
        return {**common, "heap": "96m", "persistence": storage}

    @pytest.fixture(scope="class")
    @classmethod
    def ensemble(cls, cluster: Cluster, namespace: str, helm: Helm, values: Values) -> None:
        helm.install(cluster, namespace, "zookeeper", "zookeeper", values)
        for server in cls.SERVERS:
            await_ready(cluster, namespace, server)

    @pytest.fixture(scope="class")
    @classmethod
    def single(cls, cluster: Cluster, namespace: str, helm: Helm, values: Values, storage: Values) -> None:
        alone = {**values, "replicas": 1, "persistence": {**storage, "keep": False}}
        helm.install(cluster, namespace, "single", "zookeeper", alone)
        await_ready(cluster, namespace, cls.SINGLE)

    @staticmethod
    def inside(cluster: Cluster, namespace: str, pod: str, *command: str) -> str:
        return cluster.kubectl("exec", "--namespace", namespace, pod, "--", *command, timeout=120)

    def client(self, cluster: Cluster, namespace: str, pod: str, *command: str, server: str = "127.0.0.1:2181") -> str:
        """ZooKeeper's own command line, in a pod that has it."""
        program = ["java", "-Xmx64m", "-cp", "/conf:lib/*", "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection"]
        return self.inside(cluster, namespace, pod, *program, "-server", server, *command)

    def says(self, cluster: Cluster, namespace: str, pod: str, word: str) -> str:
        script = "exec 3<>/dev/tcp/127.0.0.1/2181; printf %s $0 >&3; cat <&3"
        return self.inside(cluster, namespace, pod, "bash", "-c", script, word)

    def leader(self, cluster: Cluster, namespace: str) -> str:
        modes = {pod: self.says(cluster, namespace, pod, "srvr") for pod in self.SERVERS}
        leading = [pod for pod, said in modes.items() if "Mode: leader" in said]
        following = [pod for pod, said in modes.items() if "Mode: follower" in said]
        assert (len(leading), len(following)) == (1, 2), modes
        return leading[0]

    @pytest.mark.usefixtures("ensemble")
    def test_of_three_servers_one_leads(self, cluster: Cluster, namespace: str) -> None:
        self.leader(cluster, namespace)

    @pytest.mark.usefixtures("ensemble")
    def test_other_words_than_the_two_of_the_probes_are_refused(self, cluster: Cluster, namespace: str) -> None:
        assert "not in the whitelist" in self.says(cluster, namespace, self.SERVERS[0], "mntr")

    @pytest.mark.usefixtures("ensemble")
    def test_what_was_written_outlives_the_leader_s_pod(self, cluster: Cluster, namespace: str) -> None:
        leader = self.leader(cluster, namespace)
        self.client(cluster, namespace, leader, "create", "/kept", "as-it-was")
        replace_pod(cluster, namespace, leader)
        for server in self.SERVERS:
            await_ready(cluster, namespace, server)
            assert "as-it-was" in self.client(cluster, namespace, server, "get", "/kept").splitlines(), server

    @pytest.mark.usefixtures("ensemble")
    def test_a_number_of_servers_that_would_lose_data_is_refused(
        self, cluster: Cluster, namespace: str, helm: Helm, values: Values
    ) -> None:
        with pytest.raises(Failed, match="that number cannot be changed to 1"):
            helm.upgrade(cluster, namespace, "zookeeper", "zookeeper", {**values, "replicas": 1})

    @pytest.mark.usefixtures("single")
    def test_one_server_remembers_too(self, cluster: Cluster, namespace: str) -> None:
        self.client(cluster, namespace, self.SINGLE, "create", "/alone", "as-it-was")
        replace_pod(cluster, namespace, self.SINGLE)
        assert "as-it-was" in self.client(cluster, namespace, self.SINGLE, "get", "/alone").splitlines()

    @pytest.mark.usefixtures("ensemble", "single")
    def test_pods_find_it_by_name(self, cluster: Cluster, namespace: str) -> None:
        said = self.client(cluster, namespace, self.SINGLE, "get", "/kept", server=f"zookeeper.{namespace}.svc:2181")
        assert "as-it-was" in said.splitlines()

    @pytest.mark.usefixtures("ensemble", "single")
    def test_claims_go_and_stay_as_told(self, cluster: Cluster, namespace: str, helm: Helm) -> None:
        helm.uninstall(cluster, namespace, "single")
        helm.uninstall(cluster, namespace, "zookeeper")
        await_gone(cluster, namespace, "persistentvolumeclaim", f"data-{self.SINGLE}")
        for server in self.SERVERS:
            await_gone(cluster, namespace, "pod", server)
            assert there(cluster, namespace, "persistentvolumeclaim", f"data-{server}")


class TestMonitoring:
    """That its metrics exist is asked of a running job, in ``test_failover.py``."""

    @pytest.mark.usefixtures("operator_kinds")
    def test_everything_is_installed_and_goes_again(self, cluster: Cluster, namespace: str, helm: Helm) -> None:
        made = [
            ("servicemonitors.monitoring.coreos.com", "monitoring"),
            ("prometheusrules.monitoring.coreos.com", "monitoring"),
            ("configmap", "monitoring-dashboard"),
            ("service", "monitoring-flights"),
        ]
        helm.install(cluster, namespace, "monitoring", "monitoring", {"clusterIds": ["flights"]})
        assert [each for each in made if not there(cluster, namespace, *each)] == []

        pods = {"serviceMonitor": {"enabled": False}, "podMonitor": {"enabled": True}}
        helm.upgrade(cluster, namespace, "monitoring", "monitoring", pods)
        assert there(cluster, namespace, "podmonitors.monitoring.coreos.com", "monitoring")
        await_gone(cluster, namespace, "servicemonitors.monitoring.coreos.com", "monitoring")

        helm.uninstall(cluster, namespace, "monitoring")
        for each in [*made, ("podmonitors.monitoring.coreos.com", "monitoring")]:
            await_gone(cluster, namespace, *each)
