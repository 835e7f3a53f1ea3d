"""An API server that is frozen for a minute demotes no leader: twenty leaders lead on, with the epochs they had."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.harness.kubectl import Cluster, await_value

ELECTORS = 20
OUTAGE = 60.0


@contextmanager
def electors(cluster: Cluster, namespace: str, who: str) -> Iterator[list[dict[str, Any]]]:
    """Electors called ``who``; yields what they say, as they say it."""
    process = cluster.start(
        sys.executable, "-m", "e2e.harness.many_electors", namespace, who, "0", str(ELECTORS), "fast"
    )
    assert process.stdout is not None
    lines, heard = process.stdout, list[dict[str, Any]]()
    listening = threading.Thread(target=lambda: heard.extend(map(json.loads, lines)), daemon=True)
    listening.start()
    try:
        yield heard
    finally:
        process.kill()
        process.wait(30)
        listening.join()
        lines.close()


@pytest.fixture
def said(cluster: Cluster, namespace: str) -> Iterator[list[dict[str, Any]]]:
    """What twenty leaders say; twenty others want to lead in their place."""
    with electors(cluster, namespace, "leader") as heard:
        await_value(lambda: sum(each["said"] == "leads" for each in heard) == ELECTORS or None, 60, "not all lead")
        with electors(cluster, namespace, "rival") as rivals:
            await_value(lambda: len({each["name"] for each in rivals}) == ELECTORS or None, 60, "no rivals")
            yield heard
            assert [each for each in rivals if each["said"] == "leads"] == []


@pytest.mark.machines
def test_twenty_leaders_outlive_it(cluster: Cluster, namespace: str, said: list[dict[str, Any]]) -> None:
    def who(event: str) -> set[str]:
        return {each["name"] for each in said if each["said"] == event}

    before = holders(cluster, namespace)
    with cluster.failing("freeze-api"):
        time.sleep(OUTAGE)
        assert len(who("parked")) == ELECTORS, "the outage was not one"
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
