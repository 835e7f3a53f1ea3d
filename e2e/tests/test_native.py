"""Executors as pods: a standby's own, a leader's, those of a leader that is gone, and one that dies in the middle of a batch."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from e2e.harness.deployment_under_test import CLUSTER, PATIENCE
from e2e.harness.flights_deployment import BUSY, CALM, WHOLE, FlightsDeployment, counted
from e2e.harness.kubectl import await_value, looking


@pytest.fixture(scope="module")
def native() -> bool:
    return True


def executors(flights: FlightsDeployment, holder: str) -> list[Any]:
    """Living executor pods of one start of a supervisor."""
    pods = there(flights, holder)
    return [pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]


def there(flights: FlightsDeployment, holder: str) -> list[Any]:
    """Executor pods of one start of a supervisor, those that wait and those that have ended, too."""
    start = holder.rpartition("_")[2]
    found: list[Any] = flights.get("pods", "-l", f"understudy.dev/executor-of={CLUSTER},understudy.dev/holder={start}")[
        "items"
    ]
    return found


def standby(flights: FlightsDeployment) -> str:
    return next(str(each["holder"]) for each in flights.standings() if each["holder"] != flights.holder())


def test_a_leader_has_all_of_its_executors_and_a_standby_one(flights: FlightsDeployment) -> None:
    leader = flights.holder()
    flights.wait_for(lambda: len(executors(flights, leader)) == 2, "two executors", PATIENCE)
    flights.wait_for(flights.rehearsed, "a rehearsed standby", 400)
    assert len(executors(flights, standby(flights))) == 1
    for pod in executors(flights, leader):
        assert pod["spec"]["automountServiceAccountToken"] is False
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]


def test_a_standby_whose_driver_starts_again_leaves_no_executor_behind(flights: FlightsDeployment) -> None:
    flights.wait_for(flights.rehearsed, "a rehearsed standby", 400)
    holder = standby(flights)
    pod = next(each for each in flights.pods() if each["metadata"]["uid"] == holder.partition("_")[0])
    before = {each["metadata"]["uid"] for each in there(flights, holder)}
    flights.send_signal(pod, "jvm")

    def another() -> bool:
        now = {each["metadata"]["uid"] for each in there(flights, holder)}
        return len(now) == 1 and not now & before

    flights.wait_for(another, "an executor of its next driver and no other", PATIENCE)
    assert standby(flights) == holder, "it is the same start of a supervisor"


def test_an_executor_on_another_node_that_dies_in_the_middle_of_a_batch_costs_nothing_but_time(
    flights: FlightsDeployment,
) -> None:
    epoch, holder = flights.epoch(), flights.holder()
    flights.feed.per_second = BUSY
    survived = next((seen for _ in range(5) if (seen := committed_without_one(flights, holder))), None)
    assert survived is not None, "every executor died between two batches"
    flights.goes_on(survived)
    flights.feed.per_second = CALM
    assert (flights.epoch(), flights.holder()) == (epoch, holder)


def committed_without_one(flights: FlightsDeployment, holder: str) -> float | None:
    """When the batch was committed in which an executor of another node died; ``None`` if it had been committed before."""
    executor = elsewhere(flights, holder)
    batch = await_value(flights.bucket_sync.in_flight, PATIENCE, "no batch was ever in flight")
    at = flights.send_signal(executor, "container")
    commit = flights.watch.first(lambda each: (each.query, each.batch) == batch, PATIENCE)
    assert commit is not None, "the batch was never committed"
    if commit.seen > at:
        return commit.seen
    uid = executor["metadata"]["uid"]
    flights.wait_for(
        lambda: uid not in {each["metadata"]["uid"] for each in executors(flights, holder)},
        "the kubelet's word that the executor is dead",
        PATIENCE,
    )
    return None


def elsewhere(flights: FlightsDeployment, holder: str) -> Any:
    """An executor of this leader that is not on its node."""
    node = flights.leader()["spec"]["nodeName"]

    def away() -> Any:
        return next((pod for pod in executors(flights, holder) if pod["spec"]["nodeName"] != node), None)

    if away() is None:
        with flights.cluster.cordoned(node):
            flights.delete(executors(flights, holder)[0])
            return await_value(away, PATIENCE, "no executor on another node")
    return away()


def test_a_new_leader_asks_for_the_rest_and_deletes_those_of_the_old_one(flights: FlightsDeployment) -> None:
    flights.wait_for(flights.rehearsed, "a rehearsed standby", 400)
    before, old = flights.epoch(), flights.holder()
    assert flights.kill("container").epoch > before
    new = flights.holder()
    await_value(lambda: not executors(flights, old) or None, 30, "executors of the old leader live on")
    flights.wait_for(lambda: len(executors(flights, new)) == 2, "two executors", PATIENCE)


@pytest.mark.machines
def test_executors_of_a_frozen_leader_are_deleted_before_its_successors_first_batch(flights: FlightsDeployment) -> None:
    """Those of a dead one end by themselves; these have a driver, and it may be thawed."""
    flights.wait_for(flights.rehearsed, "a rehearsed standby", 400)
    old, frozen = flights.holder(), flights.processes(flights.leader())
    at = time.time()
    try:
        for process in frozen:
            flights.send(process, signal.SIGSTOP)
        with looking(lambda: (time.time(), executors(flights, old))) as looks:
            takeover = flights.measure("frozen", at, old)
    finally:
        for process in frozen:
            flights.send(process, signal.SIGCONT)
    assert at < max(asked for asked, living in looks if living) < at + takeover.seconds


def test_every_row_is_there_once_and_epochs_only_grew(flights: FlightsDeployment) -> None:
    time.sleep(2)
    assert counted(flights.finish(400)) == WHOLE
