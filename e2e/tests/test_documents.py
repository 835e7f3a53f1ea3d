"""The documents' contract against a real API server, with ConfigMaps and with Leases, and what only this backend can get wrong."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator

import pytest

from e2e.harness.documents import SHAPES, Kubernetes, kubeconfig, with_token
from e2e.harness.kubectl import Cluster, await_value

# The suite itself, run again here: pytest collects what this module has, and finds the fixture below.
from tests.contract.histories import CLIENTS, MOVES, play
from tests.contract.test_documents import *  # noqa: F403
from tests.contract.test_documents import LEADER, NAME, standing, written
from tests.contract.test_settling import *  # noqa: F403
from understudy.documents.model import LIMIT, Content
from understudy.documents.settle import shell
from understudy.errors import DocumentError, DocumentTooLarge, DocumentUnreadable
from understudy.protocol.names import LEADER_ANNOTATION


@pytest.fixture(params=SHAPES)
def backend(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubernetes]:
    name = f"documents-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    made = Kubernetes(name, request.param, kubeconfig(cluster.kubeconfig, cluster.context), cluster.environment())
    yield made
    made.land()
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def configmaps(cluster: Cluster) -> Iterator[Kubernetes]:
    name = f"documents-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield Kubernetes(name, "configmap", kubeconfig(cluster.kubeconfig, cluster.context))
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("seed", range(8))
def test_all_clients_see_one_history(backend: Kubernetes, seed: int) -> None:
    choose = random.Random(seed)
    asyncio.run(play(backend, [(choose.randrange(CLIENTS), choose.choice(MOVES)) for _ in range(25)]))


def test_a_record_that_cannot_be_understood_is_neither_missing_nor_free(configmaps: Kubernetes) -> None:
    async def run() -> None:
        store = configmaps.client()
        written(await store.create(NAME, Content({"a": "b"}, LEADER)))
        configmaps.plant(NAME, b"rubbish")
        with pytest.raises(DocumentUnreadable, match="leader record") as caught:
            await store.read(NAME)
        document = written(await store.replace(shell(caught.value, NAME), Content({"a": "c"}, LEADER)))
        assert document.leader == LEADER

    asyncio.run(run())


def test_an_object_somebody_made_for_us_counts_as_missing_and_one_that_was_emptied_does_not(
    cluster: Cluster, backend: Kubernetes
) -> None:
    """Replicas need no permission to create; and what they wrote cannot vanish unnoticed."""
    version, kind = ("v1", "ConfigMap") if backend.shape == "configmap" else ("coordination.k8s.io/v1", "Lease")
    cluster.apply(backend.namespace, {"apiVersion": version, "kind": kind, "metadata": {"name": NAME}})

    async def run() -> None:
        store = backend.client()
        assert await store.read(NAME) is None
        written(await store.create(NAME, Content({"a": "b"}, LEADER)))
        seen = await standing(store)
        emptied = written(await store.replace(seen, Content({"a": None})))
        assert not emptied.entries
        assert await store.read(NAME) == emptied

    asyncio.run(run())


def test_a_deleted_and_recreated_object_is_another_one(configmaps: Kubernetes) -> None:
    async def run() -> None:
        store = configmaps.client()
        seen = written(await store.create(NAME, Content({"a": "1"})))
        configmaps.remove(NAME)
        again = written(await store.create(NAME, Content({"a": "2"})))
        assert type(await store.replace(seen, Content({"a": "3"}))).__name__ == "Conflict"
        assert await store.read(NAME) == again

    asyncio.run(run())


def test_the_record_stands_where_client_go_looks_for_it(cluster: Cluster, backend: Kubernetes) -> None:
    async def run() -> None:
        written(await backend.client().create(NAME, Content({"a": "b"}, LEADER)))

    asyncio.run(run())
    path = (
        f"jsonpath={{.metadata.annotations.{LEADER_ANNOTATION.replace('.', chr(92) + '.')}}}"
        if backend.shape == "configmap"
        else "jsonpath={.spec.holderIdentity} {.spec.leaseTransitions}"
    )
    text = cluster.kubectl("get", backend.shape, NAME, "-n", backend.namespace, "-o", path)
    assert "holder-1" in text
    assert "3" in text


def test_what_is_too_large_is_refused_before_anything_is_sent(configmaps: Kubernetes) -> None:
    async def run() -> None:
        store = configmaps.client()
        with pytest.raises(DocumentTooLarge):
            await store.create(NAME, Content({"a": "x" * LIMIT}))
        assert await store.read(NAME) is None

    asyncio.run(run())


def test_without_permission_the_error_names_verb_object_and_role(cluster: Cluster, configmaps: Kubernetes) -> None:
    space = ("-n", configmaps.namespace)
    # a controller makes the account, once it has heard of the namespace
    await_value(lambda: "default" in cluster.kubectl("get", "serviceaccounts", *space) or None, 60, "no account")
    token = cluster.kubectl("create", "token", "default", *space).strip()
    powerless = with_token(configmaps.configuration, token)

    async def run() -> None:
        with pytest.raises(DocumentError, match=rf"may not get configmaps {configmaps.namespace}/{NAME}") as caught:
            await Kubernetes(configmaps.namespace, "configmap", powerless).client().read(NAME)
        assert "HA Role" in str(caught.value)

    asyncio.run(run())
