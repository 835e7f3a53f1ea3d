"""Executors as pods: a standby's own, a leader's, those of a leader that is gone, and one that dies in the middle of a batch."""

from __future__ import annotations

import time
from typing import Any

import pytest

from e2e.deployed import CLUSTER, PATIENCE
from e2e.kubectl import await_value
from e2e.production import WHOLE, Production, counted


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


def test_an_executor_that_dies_in_a_batch_costs_nothing_but_time(production: Production) -> None:
    epoch, holder = production.epoch(), production.holder()
    victim = executors(production, holder)[0]
    at = production.strike(victim, "container")
    production.goes_on(at + 2)
    assert (production.epoch(), production.holder()) == (epoch, holder)


def test_a_new_leader_asks_for_the_rest_and_deletes_those_of_the_old_one(production: Production) -> None:
    production.wait_for(production.rehearsed, "a rehearsed standby", 400)
    old = production.holder()
    takeover = production.kill("container")
    assert takeover.epoch > 1
    new = production.holder()
    await_value(lambda: not executors(production, old) or None, 30, "executors of the old leader live on")
    production.wait_for(lambda: len(executors(production, new)) == 2, "two executors", PATIENCE)


def test_every_row_is_there_once(production: Production) -> None:
    time.sleep(2)
    compared = production.finish(400)
    assert counted(compared) == WHOLE
