"""What goes wrong, and when it is over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation.loop import Process
from tests.simulation.plan import Kind
from tests.simulation.pod import Pod
from understudy.documents.record import Record
from understudy.errors import DocumentUnreadable, UnderstudyError
from understudy.ha.requests import Action, Request

if TYPE_CHECKING:
    from tests.simulation.world import World

_Trouble = Callable[[Pod], object]


@dataclass(eq=False)
class Troubles:
    world: World
    backups: list[dict[str, tuple[int, bytes]]] = field(default_factory=list)

    def victim(self) -> Pod | None:
        """The leader, half of the time."""
        living = self.world.living()
        leaders = [pod for pod in living if pod.leads]
        if leaders and self.world.chance.random() < (1.0 if self.world.plan.kind is Kind.STORM else 0.6):
            return self.world.chance.choice(leaders)
        return self.world.chance.choice(living) if living else None

    def come(self, number: int) -> None:
        """Its kind depends on the seed and its number alone, so that the others stay what they are without it."""
        deaths: list[_Trouble] = [self._kill, self._kill, self._kill_driver, self._crash_soon]
        others: list[_Trouble] = [
            self._freeze,
            self._freeze_soon,
            self._cut,
            self._outage,
            self._terminate,
            self._terminate,
            self._step_clock,
        ]
        kinds: dict[Kind, list[_Trouble]] = {
            Kind.MIXED: deaths + others,
            Kind.STORM: [*deaths, self._terminate],
            Kind.ROLLOUT: [*deaths, *others, self._roll_out, self._roll_out],
            Kind.HARM: [*deaths, *others, *[self._harm] * 4],
            Kind.GRACEFUL: [self._terminate],
            Kind.OUTAGE: [self._outage],
            Kind.ASKED: [*deaths, *others, *[self._ask] * 6],
            Kind.GONE: [*deaths, self._freeze, self._cut, self._terminate, *[self._delete_lock] * 5],
        }
        what = random.Random(f"trouble {self.world.plan.seed} {number}").choice(kinds[self.world.plan.kind])
        pod = None if number in self.world.plan.without else self.victim()
        if pod is not None:
            self.world.note(f"{what.__name__.strip('_')} {pod.holder}")
            what(pod)

    def _kill(self, pod: Pod) -> None:
        pod.die()

    def _kill_driver(self, pod: Pod) -> None:
        for driver in pod.drivers:
            driver.die(-9)

    def _crash_soon(self, pod: Pod) -> None:
        process = self._soon(pod)
        process.stops = lambda: pod.end(process)

    def _freeze_soon(self, pod: Pod) -> None:
        """Between any two of its steps."""
        self._soon(pod).stops = lambda: self._freeze(pod)

    def freeze_in_claim(self, pod: Pod) -> None:
        """Its driver, when it has just been told that it leads."""
        for driver in pod.drivers[-1:]:
            driver.process.stops_at = driver.process.turns + self.world.chance.randint(2, 12)
            driver.process.stops = lambda: self._freeze(pod)

    def _soon(self, pod: Pod) -> Process:
        process = self.world.chance.choice([each for each in pod.processes if each.alive])
        process.stops_at = process.turns + self.world.chance.randint(1, 60)
        return process

    def _freeze(self, pod: Pod) -> None:
        names: set[str] = self.world.chance.choice([{"supervisor"}, {"driver"}, {"supervisor", "driver"}])
        pod.freeze(lambda process: process.name.split("/")[1].split("-")[0] in names)
        self.world.loop.later(None, self.world.chance.uniform(0.1, 2.5 * self.world.profile.lease), pod.thaw)

    def _cut(self, pod: Pod) -> None:
        lines = [line for line in pod.every_line() if self.world.chance.random() < 0.8]
        for line in lines:
            line.cut = True
        if self.world.chance.random() < 0.3:
            self._kill_driver(pod)  # and for now it cannot be told

        def heal() -> None:
            for line in lines:
                line.cut = False

        self.world.loop.later(None, self.world.chance.uniform(0.1, 2.5 * self.world.profile.lease), heal)

    def _outage(self, _: Pod) -> None:
        alone = self.world.plan.kind is Kind.OUTAGE
        site = (
            self.world.api if alone else self.world.chance.choice([self.world.api, self.world.api, self.world.objects])
        )
        site.down = True

        def back() -> None:
            site.down = False

        self.world.loop.later(None, self.world.chance.uniform(0.1, 2.0 * self.world.profile.lease), back)

    def _terminate(self, pod: Pod) -> None:
        pod.sigterm()
        self.world.loop.later(None, self.world.chance.uniform(0.0, 1.0), self.world.start)

    def _ask(self, _: Pod) -> None:
        """Of the job. What it was asked for is withdrawn, or undone, by ``resume`` a while later."""
        world = self.world
        action = world.chance.choice([Action.SUSPEND, Action.SUSPEND, Action.HAND_OVER, "pause"])
        if world.drains.random() < 0.2:
            action = Action.DRAIN
        if world.blobs is not None and world.saves.random() < 0.5:
            action = world.saves.choice([Action.SAVEPOINT, Action.SAVEPOINT, Action.DRAIN])
        then = Action.SUSPEND.value if action == Action.SAVEPOINT and world.saves.random() < 0.3 else ""
        first = action == Action.DRAIN and world.blobs is not None
        timeout = world.chance.choice([0.5, 5.0, 30.0])
        warm = world.chance.random() < 0.4
        later = world.chance.uniform(0.0, 3.0 * world.profile.lease)

        async def ask() -> None:
            with suppress(UnderstudyError):  # refused, or the server does not answer
                if action == "pause":
                    await world.jobs.pause("operator", world.loop.now)
                else:
                    asked = Request(world.unique(), action, "operator", world.loop.now, timeout, warm=warm)
                    await world.jobs.ask(replace(asked, then=then, savepoint=first))
            await asyncio.sleep(later)
            with suppress(UnderstudyError):
                await world.jobs.resume()
                await world.jobs.unpause()

        world.loop.inside(world.operator, lambda: world.loop.create_task(ask()))

    def _step_clock(self, pod: Pod) -> None:
        error = self.world.chance.uniform(-1e6, 1e6)
        for process in pod.processes:
            process.wall_error += error

    def _roll_out(self, _: Pod) -> None:
        """A newer revision, or an older one's code again: to a Deployment both are one revision more."""
        self.world.revision += 1
        old = [pod for pod in self.world.living() if pod.revision < self.world.revision]
        for index, pod in enumerate(old):
            self.world.loop.later(None, index * self.world.chance.uniform(0.5, 8.0), self._replace, pod)
            self.world.loop.later(None, index * 1.0 + 0.1, self.world.start)

    def _replace(self, pod: Pod) -> None:
        if not self.world.calm:
            pod.sigterm()

    def _delete_lock(self, _: Pod) -> None:
        """`kubectl delete`. Where replicas may not create, an operator puts the bare object there again, later."""
        world, name = self.world, self.world.settings(1).names.lock
        world.holds.deleted = True
        servers = [world.api.documents, world.leases] if world.multi else [world.api.documents]
        for server in servers if world.chance.random() < 0.5 else [world.chance.choice(servers)]:
            server.remove(name)
        if world.may_create:
            return
        world.bare = False

        def put_back() -> None:
            world.bare = True

        world.loop.later(None, world.chance.uniform(0.0, 2.5 * world.profile.lease), put_back)

    def _harm(self, _: Pod) -> None:
        """Deleted, emptied, damaged, or restored from a backup, one document or all of them together."""
        self.world.holds.harmed = True
        server = self.world.api.documents
        self.backups.append(dict(server.stored))
        names = list(server.stored)
        if self.world.chance.random() < 0.6 and names:
            names = [self.world.chance.choice(names)]
        how = self.world.chance.choice(["delete", "empty", "damage", "restore", "bury"])
        self.world.holds.restored = self.world.holds.restored or how == "restore"
        backup = self.world.chance.choice(self.backups)
        self.world.note(f"{how} {names}")
        for name in names:
            match how:
                case "delete":
                    server.remove(name)
                case "empty":
                    server.overwrite(name, b"")
                case "damage":
                    server.overwrite(name, server.stored[name][1][: self.world.chance.randint(1, 40)])
                case "restore" if name in backup:
                    server.overwrite(name, backup[name][1])
                case "bury":
                    with suppress(DocumentUnreadable):
                        server.write(name, server.document(name), Record.buried)
                        if name.endswith("-lock") and not self.world.multi:
                            self.world.holds.buried_at = min(self.world.holds.buried_at, self.world.loop.now)
            if how != "bury" and name.endswith("-lock"):
                self.world.holds.buried_at = float("inf")
