"""Our electors and client-go's on one lock: they exclude each other, in every way of dying.

Every elector says when it begins and when it ceases to lead; all of them read one clock. client-go keeps no epoch, so this is
about exclusion only: a client-go holder is fenced by nothing.
"""

from __future__ import annotations

import functools
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from e2e.cluster.build import CLIENT_GO
from e2e.cluster.layout import Layout
from e2e.harness.kubectl import Cluster, await_value

NAME = "election"

#: A replica has to lead within this many seconds: a lease, or the minute for which a blanked record of ours is respected.
SOON = 90.0


@dataclass(slots=True)
class Elector:
    """``spans``: from when to when it said that it leads, in microseconds since 1970; killed, it leads no more."""

    name: str
    process: subprocess.Popen[str]
    spans: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at, said, *_ = line.split()
            if said == "leads":
                self.spans.append([int(at), 1 << 62])
            elif said == "stopped" and self.spans:
                self.spans[-1][1] = min(self.spans[-1][1], int(at))

    @property
    def leads(self) -> bool:
        return bool(self.spans) and self.spans[-1][1] == 1 << 62

    def end(self, number: int) -> None:
        if number == signal.SIGKILL and self.leads:
            self.spans[-1][1] = time.time_ns() // 1000
        self.process.send_signal(number)
        self.process.wait(30)


@dataclass(slots=True)
class Election:
    cluster: Cluster
    namespace: str
    lock: str
    everybody: list[Elector] = field(default_factory=list)

    def ours(self) -> Elector:
        command = [sys.executable, "-m", "e2e.harness.elector", self.namespace, NAME, self._identity("ours"), self.lock]
        return self._start(command[-2], command)

    def client_go(self, kind: str) -> Elector:
        identity = self._identity(f"client-go-{kind}")
        program = CLIENT_GO[kind].built(Layout.default()) / kind
        return self._start(identity, [str(program), "-namespace", self.namespace, "-name", NAME, "-id", identity])

    def another(self, like: Elector) -> Elector:
        kind = like.name.rpartition("-")[0]
        return self.ours() if kind == "ours" else self.client_go(kind.removeprefix("client-go-"))

    def leader(self) -> Elector | None:
        return next((each for each in self.everybody if each.leads), None)

    def overlaps(self) -> list[tuple[str, str]]:
        spans = sorted((begin, end, each.name) for each in self.everybody for begin, end in each.spans)
        return [(one[2], two[2]) for one, two in itertools.pairwise(spans) if one[1] > two[0]]

    def _identity(self, kind: str) -> str:
        return f"{kind}-{len(self.everybody)}"

    def _start(self, name: str, command: list[str]) -> Elector:
        self.everybody.append(Elector(name, self.cluster.start(*command)))
        return self.everybody[-1]


def lead(elector: Elector) -> bool | None:
    return elector.leads or None


@pytest.fixture
def election(cluster: Cluster, namespace: str, request: pytest.FixtureRequest) -> Iterator[Election]:
    made = Election(cluster, namespace, request.param)
    yield made
    for each in made.everybody:
        each.process.kill()
        each.process.wait(30)
        assert each.process.stdout is not None
        each.process.stdout.close()
    cluster.kubectl("delete", "configmap,lease", NAME, "-n", namespace, "--ignore-not-found")


@pytest.mark.parametrize("election", ["lease", "configmap"], indirect=True)
def test_client_gos_electors_and_ours_exclude_each_other(election: Election) -> None:
    choose = random.Random(4)
    election.ours()
    election.client_go(election.lock)
    led: set[str] = set()
    for number in [signal.SIGKILL, signal.SIGTERM] * 3:
        leader = await_value(election.leader, SOON, "no replica leads")
        led.add(leader.name.rpartition("-")[0])
        time.sleep(choose.uniform(0.5, 2.0))
        leader.end(number)
        election.another(leader)
    assert "ours" in led
    assert len(led) > 1, "the other kind never had its turn, so nothing was seen"
    assert election.overlaps() == []


@pytest.mark.parametrize("election", ["multi"], indirect=True)
def test_multi_excludes_those_that_know_only_one_half(election: Election) -> None:
    first = election.ours()
    await_value(functools.partial(lead, first), SOON, "ours does not lead")
    halves = [election.client_go("lease"), election.client_go("configmap")]
    time.sleep(8.0)
    assert not any(each.leads for each in halves), "ours renews both"
    first.end(signal.SIGKILL)
    for each in halves:
        await_value(functools.partial(lead, each), SOON, f"{each.name} does not lead")
    second = election.ours()
    time.sleep(8.0)
    for each in halves:
        assert not second.leads, "a replica still holds a half"
        each.end(signal.SIGTERM)
    await_value(functools.partial(lead, second), SOON, "ours does not lead")
    # The two client-go holders lead side by side: neither knows the other's kind, and no lock of ours can help that.
    mixed = [pair for pair in election.overlaps() if any(name.startswith("ours") for name in pair)]
    assert mixed == []


@pytest.mark.parametrize("election", ["lease", "configmap"], indirect=True)
def test_the_record_is_one_that_client_gos_tools_read(election: Election) -> None:
    leader = election.ours()
    await_value(functools.partial(lead, leader), SOON, "no replica leads")
    found: dict[str, Any] = election.cluster.get(election.namespace, election.lock, NAME)
    if election.lock == "lease":
        assert found["spec"]["holderIdentity"] == leader.name
        assert found["spec"]["leaseDurationSeconds"] == 5
    else:
        assert (
            f'"holderIdentity":"{leader.name}"'
            in found["metadata"]["annotations"]["control-plane.alpha.kubernetes.io/leader"]
        )
