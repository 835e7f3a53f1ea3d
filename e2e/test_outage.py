"""An API server that is frozen for a minute demotes nobody: twenty leaders lead on, with the epochs they had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.layout import REPOSITORY
from e2e.kubectl import Cluster, await_value

ELECTORS = 20
OUTAGE = 60.0


@pytest.fixture
def said(cluster: Cluster, namespace: str) -> Iterator[list[dict[str, Any]]]:
    environment = cluster.environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY / "hooks"), str(REPOSITORY)])
    command = [sys.executable, "-m", "e2e.crowd", namespace, "0", str(ELECTORS), "fast"]
    crowd = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    heard: list[dict[str, Any]] = []

    def listen() -> None:
        assert crowd.stdout is not None
        for line in crowd.stdout:
            heard.append(json.loads(line))

    threading.Thread(target=listen, daemon=True).start()
    yield heard
    crowd.kill()


@pytest.mark.machines
def test_twenty_leaders_outlive_it(cluster: Cluster, namespace: str, said: list[dict[str, Any]]) -> None:
    def who(event: str) -> set[str]:
        return {each["name"] for each in said if each["said"] == event}

    await_value(lambda: len(who("leads")) == ELECTORS or None, 60, "not everybody leads")
    before = holders(cluster, namespace)
    cluster.machine("freeze-api")
    try:
        time.sleep(OUTAGE)
        assert len(who("parked")) == ELECTORS, "the outage was not one"
    finally:
        cluster.machine("thaw-api")
    await_value(
        lambda: len(who("reopened")) == ELECTORS or None, 60, f"still closed: {who('parked') - who('reopened')}"
    )
    assert holders(cluster, namespace) == before
    assert who("lost") == set()
    assert sum(each["said"] == "leads" for each in said) == ELECTORS


def holders(cluster: Cluster, namespace: str) -> dict[str, tuple[str, int]]:
    found = {}
    for lease in cluster.get(namespace, "leases")["items"]:
        grant = json.loads(lease["metadata"]["annotations"]["understudy.dev/grant"])["body"]
        found[lease["metadata"]["name"]] = (lease["spec"]["holderIdentity"], grant["token_epoch"])
    return found
