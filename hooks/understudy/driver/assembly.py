"""A driver's parts, and how they are put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from understudy.driver.batch_hold import BatchHold
from understudy.driver.checkpoint_reporter import CheckpointReporter
from understudy.driver.conflict_recovery import ConflictRecovery
from understudy.driver.drain import Drain
from understudy.driver.fence_check import FenceCheck
from understudy.driver.fence_client import FenceClient
from understudy.driver.first_commit import FirstCommit
from understudy.driver.gate_client import GateClient
from understudy.driver.handed_over import HandedOver
from understudy.driver.query_count import QueryCount
from understudy.driver.query_launcher import QueryLauncher
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.query_starts import QueryStarts
from understudy.driver.quiesce import Quiesce
from understudy.driver.read_budget import ReadBudget
from understudy.driver.rehearsals import Rehearsals
from understudy.driver.rehearsed_code import BatchFunctions, RehearsedThreads
from understudy.driver.root_claims import RootClaims
from understudy.driver.roots_in_use import RootsInUse
from understudy.driver.savepoints import Savepoints
from understudy.driver.stale_snapshot import StaleSnapshotReporter
from understudy.driver.starts_first import QueriesFirst
from understudy.driver.takeover import Takeover
from understudy.protocol.driver_spec import DriverSpec
from understudy.protocol.messages import Advice, Message, Running, StaleSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What patches, the supervisor's messages and the script's end reach."""

    gate_client: GateClient
    fence: FenceClient
    fence_check: FenceCheck
    rehearsals: Rehearsals
    registry: QueryRegistry
    starts: QueryStarts
    takeover: Takeover
    quiesce: Quiesce
    hold: BatchHold
    drain: Drain
    checkpoints: CheckpointReporter
    recovery: ConflictRecovery
    stale_snapshot: StaleSnapshotReporter


def assemble(spec: DriverSpec, send: Callable[[Message], None], end: Callable[[BaseException], NoReturn]) -> Driver:
    """``send`` reaches the supervisor, ``end`` ends the process."""
    gate, fence_check = Path(spec.gate), FenceCheck(end)
    plan = spec.rehearsal
    budget = ReadBudget(plan.rows, plan.bytes)
    threads = RehearsedThreads(HandedOver(lambda text: send(Advice(text)), lambda reason: send(StaleSnapshot(reason))))
    functions = BatchFunctions(
        threads, lambda text: send(Advice(text)), every=plan.user_code, calls=spec.calls_functions
    )
    rehearsals = Rehearsals(
        plan.mode, plan.rounds, plan.every, spec.scratch, budget, send, functions, state_bytes=plan.state
    )
    gate_client = GateClient(gate, Path(spec.script), rehearsals.held_at, fence_check.writer, threads)
    return connect(gate, gate_client, fence_check, rehearsals, send, end, executors=spec.executors)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queries:
    """What the parts around a script's queries share."""

    fence: FenceClient
    registry: QueryRegistry
    claims: RootClaims
    roots: RootsInUse
    stale_snapshot: StaleSnapshotReporter
    launcher: QueryLauncher
    checkpoints: CheckpointReporter
    first_commit: FirstCommit
    recovery: ConflictRecovery


def connect(
    gate: Path,
    gate_client: GateClient,
    fence_check: FenceCheck,
    rehearsals: Rehearsals,
    send: Callable[[Message], None],
    end: Callable[[BaseException], NoReturn],
    *,
    executors: int = 0,
) -> Driver:
    """The parts around a gate, a check of sessions and rehearsals. ``gate`` is the path of the gate's page."""
    parts = _around_queries(gate, gate_client, fence_check, send)
    fence, registry = parts.fence, parts.registry
    gate_client.starts = QueriesFirst(registry, parts.launcher.settings)
    takeover = Takeover(
        gate_client=gate_client,
        rehearsals=rehearsals,
        registry=registry,
        claims=parts.claims,
        launcher=parts.launcher,
        recovery=parts.recovery,
        first_commit=parts.first_commit,
        stale_snapshot=parts.stale_snapshot,
        send=send,
        end=end,
        executors=executors,
    )
    starts = QueryStarts(
        gate_client=gate_client,
        rehearsals=rehearsals,
        registry=registry,
        fence=fence,
        fence_check=fence_check,
        roots=parts.roots,
        launcher=parts.launcher,
        takeover=takeover,
        recovery=parts.recovery,
        first_commit=parts.first_commit,
        send=send,
    )
    hold = _hold(gate_client, rehearsals, parts, takeover, send)
    return Driver(
        gate_client=gate_client,
        fence=fence,
        fence_check=fence_check,
        rehearsals=rehearsals,
        registry=registry,
        starts=starts,
        takeover=takeover,
        quiesce=Quiesce(gate_client=gate_client, registry=registry, fence=fence, send=send),
        hold=hold,
        drain=hold.drain,
        checkpoints=parts.checkpoints,
        recovery=parts.recovery,
        stale_snapshot=parts.stale_snapshot,
    )


def _hold(
    gate_client: GateClient,
    rehearsals: Rehearsals,
    parts: _Queries,
    takeover: Takeover,
    send: Callable[[Message], None],
) -> BatchHold:
    drain = Drain(
        registry=parts.registry,
        claims=parts.claims,
        fence=parts.fence,
        launcher=parts.launcher,
        recovery=parts.recovery,
        checkpoints=parts.checkpoints,
        send=send,
    )
    return BatchHold(
        gate_client=gate_client,
        registry=parts.registry,
        fence=parts.fence,
        takeover=takeover,
        checkpoints=parts.checkpoints,
        drain=drain,
        savepoints=Savepoints(registry=parts.registry, rehearsals=rehearsals, send=send),
        send=send,
    )


def _around_queries(
    gate: Path, gate_client: GateClient, fence_check: FenceCheck, send: Callable[[Message], None]
) -> _Queries:
    fence = FenceClient()
    registry = QueryRegistry(gate_client, fence.let_all_begin)
    claims = RootClaims(gate_client, fence_check, fence, send)
    stale_snapshot = StaleSnapshotReporter(send)
    roots = RootsInUse(registry, claims, fence)
    launcher = QueryLauncher(fence=fence, claims=claims, roots=roots, stale_snapshot=stale_snapshot)
    checkpoints = CheckpointReporter(gate_client=gate_client, registry=registry, fence=fence, send=send)
    first_commit = FirstCommit(
        gate=gate, gate_client=gate_client, stale_snapshot=stale_snapshot, checkpoints=checkpoints, send=send
    )
    recovery = ConflictRecovery(
        gate_client=gate_client,
        registry=registry,
        launcher=launcher,
        query_count=QueryCount(registry.state, lambda now: send(Running(now.running, dict(now.failed)))),
        stale_snapshot=stale_snapshot,
        fence=fence,
        fence_check=fence_check,
    )
    return _Queries(
        fence=fence,
        registry=registry,
        claims=claims,
        roots=roots,
        stale_snapshot=stale_snapshot,
        launcher=launcher,
        checkpoints=checkpoints,
        first_commit=first_commit,
        recovery=recovery,
    )
