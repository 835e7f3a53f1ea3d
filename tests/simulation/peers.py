"""Other electors on the same bench, under the same troubles: ``python -m tests.simulation.peers`` prints the table in docs/proof.md.

What is compared is an elector and the promise it makes: "you lead". A candidate that believes it acts, five times a second. The official
Python client's ``leaderelection`` runs as it is, its threads, clocks and requests taken from the simulation; client-go's
algorithm is written again (``client_go``); ours runs as it is, with its gate, which is part of the promise. None has a fence here.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest import mock

import urllib3.exceptions
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.simulation.client_go import ClientGo
from tests.simulation.clocks import simulated
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Line, SimulatedStore, Site
from tests.simulation.pod import Quiet
from tests.simulation.puppet import Puppet, puppet, sleep
from understudy.clock import BootClock
from understudy.config.timings import Timings
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.errors import DocumentError

TIMINGS = Timings()
#: What the others wait between attempts, in seconds: client-go's default.
RETRY = 2.0
NAME = "lock"
#: Seconds between two acts of a candidate that believes that it leads.
ACTS_EVERY = 0.2
#: Until Linux gives up on a connection through which nothing comes, in seconds: the client gives its requests no time-out.
GIVES_UP = 924.0


class Candidate(Protocol):
    """An elector in its process. ``leads``: what it believes now, by its own clock; ``over``: what it died of."""

    process: Process

    def leads(self) -> bool: ...

    def over(self) -> str: ...

    def end(self) -> None: ...


# --- ours -------------------------------------------------------------------------------------------------------------


class Ours:
    def __init__(self, bench: Bench, process: Process, line: Line) -> None:
        self.process, self._loop = process, bench.loop
        self._open_until = float("-inf")
        self.task: asyncio.Task[None] | None = None
        line.bounded = False
        self._store = SimulatedStore(line)
        bench.loop.inside(process, lambda: self._start(process.name))

    def _start(self, holder: str) -> None:
        async def nothing_granted() -> int:
            return 0

        elector = Elector(self._store, NAME, holder, TIMINGS, BootClock(), self, Quiet(), min_epoch=nothing_granted)
        elector.ready(True)
        self.task = self._loop.create_task(elector.run())

    def granted(self, grant: Grant) -> None:
        pass

    def renewed(self, sent_at: float) -> None:
        self._open_until = sent_at + TIMINGS.renew

    def lost(self, reason: str) -> None:
        del reason
        self._open_until = float("-inf")

    def leads(self) -> bool:
        return self._loop.inside(self.process, self._loop.time) < self._open_until

    def over(self) -> str:
        return "" if self.task is None or not self.task.done() else repr(self.task.exception())

    def end(self) -> None:
        pass


# --- the Python client's ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Objects:
    """What the API server keeps: objects of the client's own model, each with a revision."""

    stored: dict[str, Any] = field(default_factory=dict)
    counter: int = 0

    def put(self, name: str, body: Any) -> Any:
        self.counter += 1
        kept = copy.deepcopy(body)
        if isinstance(kept.metadata, dict):
            kept.metadata = client.V1ObjectMeta(**kept.metadata)
        kept.metadata.resource_version = str(self.counter)
        self.stored[name] = kept
        return copy.deepcopy(kept)

    def copied(self, name: str) -> Any:
        return copy.deepcopy(self.stored.get(name))

    def swapped(self, name: str, body: Any) -> Any:
        """As it stands then; ``False`` when another revision did, or none."""
        standing = self.stored.get(name)
        seen = None if standing is None else standing.metadata.resource_version
        return self.put(name, body) if body.metadata.resource_version == seen else False


def _refused(status: int) -> ApiException:
    error = ApiException(status=status, reason=str(status))
    error.body = f'{{"code": {status}}}'
    return error


class Api:
    """In the place of ``CoreV1Api`` and ``CoordinationV1Api``: three of their calls, through a line."""

    def __init__(self, line: Line, objects: Objects) -> None:
        self._line, self._objects = line, objects

    def _read(self, name: str, namespace: str) -> Any:
        del namespace

        return self._asked(lambda: self._line.ask(lambda: self._objects.copied(name) or _refused(404)))

    def _create(self, namespace: str, body: Any) -> Any:
        del namespace
        name = body.metadata["name"] if isinstance(body.metadata, dict) else body.metadata.name

        def change() -> Any:
            return _refused(409) if name in self._objects.stored else self._objects.put(name, body)

        return self._asked(lambda: self._line.tell(change, None))

    def _replace(self, name: str, namespace: str, body: Any) -> Any:
        del namespace

        def change() -> Any:
            if name not in self._objects.stored:
                return _refused(404)
            return self._objects.swapped(name, body) or _refused(409)

        return self._asked(lambda: self._line.tell(change, None))

    def _asked(self, call: Callable[[], Any]) -> Any:
        try:
            answer = puppet().wait_for(call)
        except DocumentError as error:
            status = str(error).split(" ", 1)[0]
            if status.isdigit():
                raise _refused(int(status)) from error
            answer = None
        if answer is not None:
            return answer
        if not self._line.site.down:  # else the connection is refused at once
            puppet().wait_for(lambda: asyncio.sleep(GIVES_UP))
        raise urllib3.exceptions.ProtocolError("Connection aborted.")

    read_namespaced_config_map = read_namespaced_lease = _read
    create_namespaced_config_map = create_namespaced_lease = _create
    replace_namespaced_config_map = replace_namespaced_lease = _replace


class _Inline:
    """A thread that is over as soon as it is started: what it runs here only notes that it leads."""

    def __init__(self, target: Callable[..., object], args: tuple[Any, ...] = (), **_: object) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        self._target(*self._args)


class Theirs:
    def __init__(self, bench: Bench, process: Process, line: Line, lock: Any) -> None:
        self.process, self._leads = process, False
        lock.api_instance = Api(line, bench.objects)
        whole = int(TIMINGS.lease), int(TIMINGS.renew), int(RETRY)
        config = electionconfig.Config(lock, *whole, lambda: self._lead(True), lambda: self._lead(False))
        self._puppet = Puppet(bench.loop, process, leaderelection.LeaderElection(config).run)
        bench.loop.inside(process, lambda: bench.loop.create_task(self._run(bench)))

    async def _run(self, bench: Bench) -> None:
        await self._puppet.run()
        if self._puppet.error is not None:  # it is not caught, so the program ends
            bench.loop.kill(self.process)

    def _lead(self, leads: bool) -> None:
        self._leads = leads

    def leads(self) -> bool:
        return self._leads

    def over(self) -> str:
        # one that has lost returns, as client-go's does: the program is to start another
        return "" if self._puppet.error is None else repr(self._puppet.error)

    def end(self) -> None:
        self._puppet.take_down()


def ours(bench: Bench, process: Process, line: Line) -> Candidate:
    return Ours(bench, process, line)


def configmap(bench: Bench, process: Process, line: Line) -> Candidate:
    return Theirs(bench, process, line, ConfigMapLock(NAME, "ns", process.name))


def lease(bench: Bench, process: Process, line: Line) -> Candidate:
    return Theirs(bench, process, line, LeaseLock(NAME, "ns", process.name))


def client_go(bench: Bench, process: Process, line: Line) -> Candidate:
    return ClientGo(bench, process, line, NAME, TIMINGS.lease, TIMINGS.renew, RETRY)


ELECTORS = {
    "understudy": ours,
    "client-go's algorithm": client_go,
    "Python client, ConfigMap": configmap,
    "Python client, Lease": lease,
}


# --- the bench --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Bench:
    """Three candidates, one trouble, and what came of it."""

    seed: int
    make: Callable[[Bench, Process, Line], Candidate]
    loop: SimulatedLoop = field(default_factory=SimulatedLoop)
    site: Site = field(default_factory=Site)
    objects: Objects = field(default_factory=Objects)
    candidates: list[Candidate] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    found: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def join(self) -> None:
        chance = self.chance
        process = Process(f"c{len(self.candidates) + 1}", chance.uniform(0.0, 100.0), chance.uniform(0.999, 1.001))
        line = Line(self.loop, process, self.site, chance, TIMINGS.request, late=30.0)
        self.lines.append(line)
        self.candidates.append(self.make(self, process, line))

    def leader(self) -> Candidate | None:
        return next((each for each in self.candidates if each.process.alive and each.leads()), None)

    async def until_led(self) -> Candidate:
        for _ in range(600):
            if (leader := self.leader()) is not None:
                return leader
            await asyncio.sleep(0.1)
        raise RuntimeError("no candidate ever led")

    async def act(self) -> None:
        """A candidate that believes that it leads, acts. A frozen one does nothing."""
        while True:
            await asyncio.sleep(ACTS_EVERY)
            acting = [each for each in self.candidates if each.process.runs and each.leads()]
            names = [each.process.name for each in acting]
            if len(names) > 1:
                self.found.add("two lead")
            for name in names:
                if name in self.acts and self.acts[-1] != name and len(names) > 1:
                    self.found.add("a stale one acts")
                if not self.acts or self.acts[-1] != name:
                    self.acts.append(name)

    async def run(self, trouble: Callable[[Bench, Candidate], Any]) -> None:
        for _ in range(3):
            self.join()
        leader = await self.until_led()
        acting = self.loop.create_task(self.act())
        await asyncio.sleep(self.chance.uniform(3.0, 6.0))
        await trouble(self, leader)
        await asyncio.sleep(3 * TIMINGS.lease)
        acting.cancel()
        alive = [each for each in self.candidates if each.process.alive]
        if any(each.over() for each in self.candidates):
            self.found.add("an elector dies")
        if not any(each.leads() for each in alive):
            self.found.add("no leader")
        if self.acts and self.acts[-1] != leader.process.name and trouble in NEEDLESS:
            self.found.add("the lead is lost")

    def play(self, trouble: Callable[[Bench, Candidate], Any]) -> set[str]:
        with ExitStack() as stack:
            stack.enter_context(simulated(self.loop, self.chance))
            stack.enter_context(mock.patch.object(time, "sleep", sleep))
            stack.enter_context(mock.patch.object(leaderelection.threading, "Thread", _Inline))
            try:
                self.loop.run(self.run(trouble))
            finally:
                for each in self.candidates:
                    each.end()
        return self.found


async def nothing(_: Bench, __: Candidate) -> None:
    """Nothing at all."""


async def killed(bench: Bench, leader: Candidate) -> None:
    """The leader dies."""
    bench.loop.kill(leader.process)


async def frozen(bench: Bench, leader: Candidate) -> None:
    """The leader is frozen for two leases, and thaws."""
    bench.loop.freeze(leader.process)
    await asyncio.sleep(2 * TIMINGS.lease + bench.chance.uniform(0.0, 5.0))
    bench.loop.thaw(leader.process)


async def clock_forward(bench: Bench, leader: Candidate) -> None:
    """The wall clock of everybody but the leader is set an hour ahead."""
    for each in bench.candidates:
        each.process.wall_error += 0.0 if each is leader else 3600.0


async def clock_back(bench: Bench, leader: Candidate) -> None:
    """The leader's wall clock is set back an hour; then it is cut off for two leases."""
    leader.process.wall_error -= 3600.0
    await cut(bench, leader)


async def cut(bench: Bench, leader: Candidate) -> None:
    """The leader is cut off for two leases."""
    line = next(each for each in bench.lines if each.process is leader.process)
    line.cut = True
    await asyncio.sleep(2 * TIMINGS.lease + bench.chance.uniform(0.0, 5.0))
    line.cut = False


async def outage(bench: Bench, _: Candidate) -> None:
    """The API server is away for a lease, for everybody."""
    bench.site.down = True
    await asyncio.sleep(TIMINGS.lease + bench.chance.uniform(0.0, 5.0))
    bench.site.down = False


async def lossy(bench: Bench, _: Candidate) -> None:
    """For two minutes one request in ten meets something."""
    for line in bench.lines:
        line.trouble = 0.1
    await asyncio.sleep(120.0)
    for line in bench.lines:
        line.trouble = 0.0


async def deleted(bench: Bench, _: Candidate) -> None:
    """The lock is deleted while its leader lives."""
    bench.site.documents.remove(NAME)
    bench.objects.stored.pop(NAME, None)


async def damaged(bench: Bench, _: Candidate) -> None:
    """The leader's record is replaced by something unreadable, while the leader lives."""
    if NAME in bench.site.documents.stored:
        bench.site.documents.overwrite(NAME, b"{half")
    if (standing := bench.objects.stored.get(NAME)) is not None:
        hurt = copy.deepcopy(standing)
        if hurt.metadata.annotations:
            hurt.metadata.annotations = dict.fromkeys(hurt.metadata.annotations, "{half")
        else:
            hurt.spec = client.V1LeaseSpec()
        bench.objects.put(NAME, hurt)


TROUBLES = (nothing, killed, frozen, cut, outage, lossy, clock_forward, clock_back, deleted, damaged)
#: Troubles that are no reason for another leader: this one lives, and everybody is affected alike.
NEEDLESS = (nothing, outage, clock_forward, deleted, damaged)


def table(seeds: int) -> str:
    """For Markdown: in how many of ``seeds`` histories what happened."""
    lines = ["| | " + " | ".join(ELECTORS) + " |", "| --- " * (len(ELECTORS) + 1) + "|"]
    for trouble in TROUBLES:
        cells = []
        for make in ELECTORS.values():
            found = [Bench(seed, make).play(trouble) for seed in range(seeds)]
            counts = {what: sum(what in each for each in found) for what in sorted(set().union(*found))}
            cells.append(", ".join(f"{what} {count}" for what, count in counts.items()) or "–")
        lines.append(f"| {trouble.__doc__} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    options = parser.parse_args()
    sys.stdout.write(f"{table(options.seeds)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
