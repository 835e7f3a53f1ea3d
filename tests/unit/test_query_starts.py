"""What a leading driver remembers of queries that have ended: a script may start one a minute, for months."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from understudy.driver.assembly import Driver, connect
from understudy.driver.pending_query import PendingQuery
from understudy.fencing.counters import CountersPage
from understudy.protocol.counters import path_of
from understudy.protocol.gate import State
from understudy.protocol.messages import Granted, Message, Roots


class Fence:
    """The JVM's, as far as it is asked."""

    def __init__(self) -> None:
        self.claimed: list[str] = []
        self.forgotten: list[str] = []

    def claim(self, root: str, _: Any, recorded: int, committed: int) -> str:
        assert (recorded, committed) == (-1, -1), "no root of these is recorded"
        self.claimed.append(root)
        return json.dumps({"outcome": "claimed"})

    def forget(self, root: str, _: Any) -> None:
        self.forgotten.append(root)


class Session:
    """What a claim takes of one."""

    def __init__(self) -> None:
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
        self._jsparkSession = SimpleNamespace(
            sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: None), sessionUUID=lambda: "only"
        )


SESSION = Session()


class Query:
    """A real one's answers: it runs, or has ended, with an error or without."""

    def __init__(self, *, active: bool, error: str | None = None) -> None:
        self.isActive, self._error = active, error

    def exception(self) -> str | None:
        return self._error

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        return


class Started(PendingQuery):
    """Begins as ``query``, with ``checkpoint`` and a sink of its own."""

    @property
    def session(self) -> Any:
        return SESSION

    @property
    def roots(self) -> list[str]:
        return [str(self.checkpoint), "/sink"]

    def count_ungated(self, fence: Any) -> None:
        """Its sink asks the gate."""

    def begin(self) -> Any:
        return self.writer


def started(checkpoint: str, query: Query, kind: type[Started] = Started) -> Started:
    anything: Any = query
    snapshot: Any = SimpleNamespace(settings=SimpleNamespace(put=lambda _: None, inForce=lambda _: True))
    sink: Any = SimpleNamespace(kind="noop", query_name=None, options={})
    return kind(anything, None, None, sink, checkpoint, snapshot, "ProcessingTimeTrigger")


def not_ended(error: BaseException) -> NoReturn:
    raise AssertionError(error)


def leading(gate: Path, fence: Fence, gate_client: Any, sent: list[Message]) -> Driver:
    CountersPage.create(path_of(gate))
    no_rehearsals: Any = None
    check: Any = SimpleNamespace(session=lambda _: None, claim=lambda *_: None)
    driver = connect(gate, gate_client, check, no_rehearsals, sent.append, not_ended)
    driver.fence.attached(SimpleNamespace(**{"dev.understudy.fence.Fence": fence}))
    driver.takeover.claims.granted(Granted(1))
    return driver


def test_queries_that_came_to_their_end_are_forgotten_and_those_that_run_or_failed_are_not(tmp_path: Path) -> None:
    sent: list[Message] = []
    fence, leads = Fence(), SimpleNamespace(standing=lambda: State.OPEN, pass_through=lambda: None)
    driver = leading(tmp_path / "gate", fence, leads, sent)
    driver.starts.start(started("/runs", Query(active=True)))
    driver.starts.start(started("/failed", Query(active=False, error="it failed")))
    for number in range(100):
        driver.starts.start(started(f"/run-{number}", Query(active=False)))
    (*_, roots) = [message for message in sent if isinstance(message, Roots)]
    assert len(roots.roots) <= 5, "the sink, two that stay, the last and the one before"
    assert {"/sink", "/runs", "/failed", "/run-99"} <= {*roots.roots}
    assert fence.forgotten == [f"/run-{number}" for number in range(99)]
    assert len(driver.registry.queries()) == 3

    driver.starts.start(started("/run-5", Query(active=True)))
    assert fence.claimed.count("/run-5") == 2, "it is claimed again when it is used again"
    assert fence.claimed.count("/sink") == 1
    leads.standing = lambda: State.REVOKED  # what still waits for a first commit ends


class Slow(Started):
    """Something happens while it starts."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def begin(self) -> Any:
        self.meanwhile()
        return super().begin()


def test_what_a_start_under_way_has_claimed_is_not_forgotten_when_a_query_that_ended_there_is(tmp_path: Path) -> None:
    """Its tasks were counted no more from then on, and a driver whose tasks ask no gate was parked."""
    fence, leads = Fence(), SimpleNamespace(standing=lambda: State.OPEN, pass_through=lambda: None)
    driver = leading(tmp_path / "gate", fence, leads, [])
    driver.starts.start(started("/again", Query(active=False)))
    again = started("/again", Query(active=True), Slow)
    assert isinstance(again, Slow)

    def meanwhile() -> None:
        other = threading.Thread(target=driver.starts.start, args=(started("/other", Query(active=True)),))
        other.start()
        other.join()

    again.meanwhile = meanwhile
    driver.starts.start(again)
    assert fence.forgotten == []
    assert {*driver.starts.roots.held()} == {"/again", "/other", "/sink"}
    leads.standing = lambda: State.REVOKED
