"""The documents' contract against the servers of two charts in containers; ``tests/contract`` runs it against their programs.

It needs Docker and no cluster.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from e2e.harness import containers
from testkit.s3 import Missing, S3Proxy
from testkit.zookeeper import Ensemble
from tests.contract.backends import Backend, Bucket
from tests.contract.histories import CLIENTS, MOVES, play

# The suite itself, run again here: pytest collects what these modules have, and finds the fixture below.
from tests.contract.test_documents import *  # noqa: F403
from tests.contract.test_documents import NAME, standing, written
from tests.contract.test_settling import *  # noqa: F403
from tests.contract.zookeeper import PASSWORD, USER, ZooKeeper
from understudy.documents.model import Content, Written
from understudy.errors import ServerUnreachable


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    try:
        with containers.ensemble(tmp_path_factory.mktemp("zookeeper"), user=USER, password=PASSWORD) as made:
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    try:
        with containers.s3_server(tmp_path_factory.mktemp("s3")) as port, S3Proxy(port).running() as made:
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def zookeeper(servers: Ensemble) -> Iterator[ZooKeeper]:
    made = ZooKeeper(servers)
    yield made
    made.close()


@pytest.fixture(params=["zookeeper", "s3"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "zookeeper":
        yield request.getfixturevalue("zookeeper")
        return
    made = Bucket(request.getfixturevalue("proxy"), f"contract-{request.node.name}")
    yield made
    made.land()


@pytest.mark.parametrize("seed", range(4))
def test_all_clients_see_one_history(backend: Backend, seed: int) -> None:
    choose = random.Random(seed)
    asyncio.run(play(backend, [(choose.randrange(CLIENTS), choose.choice(MOVES)) for _ in range(25)]))


@pytest.mark.parametrize("befalls", ["kill", "freeze"])
def test_documents_outlive_the_container_that_leads_the_ensemble(zookeeper: ZooKeeper, befalls: str) -> None:
    async def run() -> None:
        store = zookeeper.client()
        written(await store.create(NAME, Content({"n": "0"})))
        getattr(zookeeper.ensemble.leader, befalls)()
        for number in range(1, 4):
            outcome = None
            while not isinstance(outcome, Written):
                with suppress(ServerUnreachable):  # what was asked of the server that is gone has no answer
                    outcome = await store.replace(await standing(store), Content({"n": str(number)}))
        assert (await standing(zookeeper.client())).entries == {"n": "3"}

    try:
        asyncio.run(run())
    finally:
        zookeeper.ensemble.repair()
