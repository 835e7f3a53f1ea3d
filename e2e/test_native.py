"""Executors as pods: a standby's own, a leader's, those of a leader that is gone, and one that dies in the middle of a batch."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from e2e.deployed import CLUSTER, PATIENCE
from e2e.kubectl import await_value, looking
from e2e.production import BUSY, CALM, WHOLE, Production, counted


@pytest.fixture(scope="module")
def native() -> bool:
    return True


def executors(production: Production, holder: str) -> list[Any]:
    """Living executor pods of one start of a supervisor."""
    start = holder.rpartition("_")[2]
    pods = production.get("pods", "-l", f"understudy.dev/executor-of={CLUSTER},understudy.dev/holder={start}")["items"]
    return [pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]


def standby(production: Production) -> str:
    return next(str(each["holder"]) for each in production.standings() if each["holder"] != production.holder())


def test_a_leader_has_all_of_its_executors_and_a_standby_one(production: Production) -> None:
    leader = production.holder()
    production.wait_for(lambda: len(executors(production, leader)) == 2, "two executors", PATIENCE)
    production.wait_for(production.rehearsed, "a rehearsed standby", 400)
    assert len(executors(production, standby(production))) == 1
    for pod in executors(production, leader):
        assert pod["spec"]["automountServiceAccountToken"] is False
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]


def test_an_executor_on_another_node_that_dies_in_the_middle_of_a_batch_costs_nothing_but_time(
    production: Production,
) -> None:
    epoch, holder = production.epoch(), production.holder()
    production.feed.per_second = BUSY
    survived = next((seen for _ in range(5) if (seen := committed_without_one(production, holder))), None)
    assert survived is not None, "every executor died between two batches"
    production.goes_on(survived)
    production.feed.per_second = CALM
    assert (production.epoch(), production.holder()) == (epoch, holder)


def committed_without_one(production: Production, holder: str) -> float | None:
    """When the batch was committed in which an executor of another node died; ``None`` if it had been committed before."""
    executor = elsewhere(production, holder)
    batch = await_value(production.courier.in_flight, PATIENCE, "no batch was ever in flight")
    at = production.strike(executor, "container")
    commit = production.watch.first(lambda each: (each.query, each.batch) == batch, PATIENCE)
    assert commit is not None, "the batch was never committed"
    if commit.seen > at:
        return commit.seen
    uid = executor["metadata"]["uid"]
    production.wait_for(
        lambda: uid not in {each["metadata"]["uid"] for each in executors(production, holder)},
        "the kubelet's word that the executor is dead",
        PATIENCE,
    )
    return None


def elsewhere(production: Production, holder: str) -> Any:
    """An executor of this leader that is not on its node."""
    node = production.leader()["spec"]["nodeName"]

    def away() -> Any:
        return next((pod for pod in executors(production, holder) if pod["spec"]["nodeName"] != node), None)

    if away() is None:
        with production.cluster.cordoned(node):
            production.delete(executors(production, holder)[0])
            return await_value(away, PATIENCE, "no executor on another node")
    return away()


def test_a_new_leader_asks_for_the_rest_and_deletes_those_of_the_old_one(production: Production) -> None:
    production.wait_for(production.rehearsed, "a rehearsed standby", 400)
    before, old = production.epoch(), production.holder()
    assert production.kill("container").epoch > before
    new = production.holder()
    await_value(lambda: not executors(production, old) or None, 30, "executors of the old leader live on")
    production.wait_for(lambda: len(executors(production, new)) == 2, "two executors", PATIENCE)


@pytest.mark.machines
def test_executors_of_a_frozen_leader_are_deleted_before_its_successors_first_batch(production: Production) -> None:
    """Those of a dead one end by themselves; these have a driver, and it may be thawed."""
    production.wait_for(production.rehearsed, "a rehearsed standby", 400)
    old, frozen = production.holder(), production.processes(production.leader())
    at = time.time()
    try:
        for process in frozen:
            production.send(process, signal.SIGSTOP)
        with looking(lambda: (time.time(), executors(production, old))) as looks:
            takeover = production.measure("frozen", at, old)
    finally:
        for process in frozen:
            production.send(process, signal.SIGCONT)
    assert at < max(asked for asked, living in looks if living) < at + takeover.seconds


def test_every_row_is_there_once_and_epochs_only_grew(production: Production) -> None:
    time.sleep(2)
    assert counted(production.finish(400)) == WHOLE
