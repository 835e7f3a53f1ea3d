"""The replicas: whether a takeover would find a standby that is ready for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from understudy.doctor.finding import Finding, note, ok, warning
from understudy.ha.replicas import Replica, lacks_queries, running_queries

CHECK = "replicas"


@dataclass(frozen=True, slots=True)
class Seen:
    """What this machine or the cluster knows of replicas, by holder. ``gone``: their processes or pods are gone. ``nodes``: where pods run.
    ``unseen``: whether they live is not known from here.
    """

    gone: frozenset[str] = frozenset()
    nodes: Mapping[str, str] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()


def findings(replicas: Sequence[Replica], holder: str | None, seen: Seen, *, led: bool) -> list[Finding]:
    """``holder`` of the lock; ``led``: whether a replica has to lead now. Those of a job that has ended rehearse nothing."""
    found = [
        note(CHECK, f"{each.name} is gone, and what it said of itself is left", "A leader takes it out")
        for each in replicas
        if each.holder in seen.gone
    ]
    living = [each for each in replicas if each.holder not in seen.gone]
    if not led:
        return found
    standbys = [each for each in living if each.holder != holder and each.role != "leader"]
    for each in living:
        if each.role == "leader":
            found += _leader(each, holder)
    leaders = [each for each in living if each.role == "leader" and each.holder == holder]
    running = running_queries(leaders)
    for each in standbys:
        found += [*_generation(each, leaders), *_standby(each, running, unseen=each.holder in seen.unseen)]
    if not standbys:
        text = "there is no standby: after the death of the leader the job waits for a new driver"
        found.append(warning(CHECK, text, "Start a second replica"))
    elif not any(each.rehearsed for each in standbys):
        text = "no standby has rehearsed: a takeover would start queries that were never tried"
        found.append(warning(CHECK, text, "understudy status shows what each waits for"))
    return [*found, *_nodes(living, seen.nodes)]


def _leader(replica: Replica, holder: str | None) -> list[Finding]:
    if replica.holder != holder:
        text = f"{replica.name} says that it leads, and does not hold the lock: it is cut off, frozen or dead"
        return [warning(CHECK, text, "It can write nothing. End it, if it does not notice by itself")]
    if replica.reason:
        return [warning(CHECK, f"{replica.name} leads, and {replica.reason}", "The script's log has the whole error")]
    return []


def _generation(standby: Replica, leaders: Sequence[Replica]) -> list[Finding]:
    """Compared with the leader's own entry: numbers of two Deployments say nothing of each other, and two never run at once."""
    for leader in leaders:
        if standby.generation < leader.generation:
            text = f"{standby.name} runs code of generation {standby.generation}, and generation {leader.generation} leads: it will not"
            return [warning(CHECK, text, "End it, or roll its code out again: a rollback counts as a new generation")]
        if standby.generation > leader.generation:
            return [note(CHECK, f"{standby.name} runs newer code than the leader: a rollout is under way")]
    return []


def _standby(standby: Replica, running: int, *, unseen: bool) -> list[Finding]:
    name = standby.name
    if standby.rehearsed:
        if lacks := lacks_queries(standby.queries, running, standby.held):
            remedy = "It takes over all the same, and tries the others only then"
            return [warning(CHECK, f"{name} stands by and has {lacks}", remedy)]
        how = f"{standby.how}, {standby.rounds} rounds"
        if unseen:
            text = f"{name} on {standby.host} says that it stands by and has rehearsed ({how}); whether it lives is not seen from here"
            return [note(CHECK, text, "Run understudy doctor there")]
        return [ok(CHECK, f"{name} stands by and has rehearsed ({how})")]
    held = f"held at {standby.held}" if standby.held else ""
    if why := "; ".join(each for each in (held, standby.reason) if each):
        remedy = "It takes over all the same, and not as fast (docs/what-runs-where.md)"
        return [warning(CHECK, f"{name} stands by and has not rehearsed: {why}", remedy)]
    return [note(CHECK, f"{name} stands by and has not rehearsed yet")]


def _nodes(living: Sequence[Replica], nodes: Mapping[str, str]) -> list[Finding]:
    found = {nodes[each.holder] for each in living if each.holder in nodes}
    if len(living) < 2 or len(found) != 1 or any(each.holder not in nodes for each in living):
        return []
    (node,) = found
    return [
        note(
            CHECK,
            f"all replicas run on node {node}, and would be lost with it",
            "Spread them (topologySpreadConstraints)",
        )
    ]
