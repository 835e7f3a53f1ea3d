"""Takeover times against one size after the other: a plot per direction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.timeline import FAINT, INK, PHASE_COLOURS
from testkit.phases import PHASES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: By size, then by variant: what ``takeovers.summary`` makes of them.
Summaries = Mapping[str, Mapping[str, Mapping[str, Any]]]

TITLES = {
    "partitions": "shuffle partitions",
    "queries": "queries of the script",
    "state": "MB of state (RocksDB, changelog)",
    "provider": "provider of 100 MB of state",
    "age": "batches behind it",
    "latency": "ms of the object store",
    "executors": "executors of each replica",
}


def plot(directions: Mapping[str, Summaries], path: Path) -> None:
    """Medians as bars, ours by phase; the range as a line. Seconds on a logarithmic axis would hide the phases, so the axis is linear."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = {name: found for name, found in directions.items() if any(found.values())}
    if not shown:
        return
    figure, axes = plt.subplots(1, len(shown), figsize=(3.6 * len(shown) + 1.2, 3.8), squeeze=False)
    for axis, (name, found) in zip(axes[0], shown.items(), strict=True):
        _direction(axis, name, found)
    axes[0][0].set_ylabel("s from kill to first commit", color=INK)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _direction(axis: Axes, name: str, found: Summaries) -> None:
    sizes = [size for size, by in found.items() if by]
    for at, size in enumerate(sizes):
        ours, restarted = found[size].get("understudy"), found[size].get("restart")
        if ours:
            _ours(axis, at - 0.2, ours, labelled=at == 0)
            _range(axis, at - 0.2, ours)
        if restarted:
            label = "script restarted" if at == 0 else None
            axis.bar(at + 0.2, restarted["p50_s"], 0.36, color=FAINT, label=label)
            _range(axis, at + 0.2, restarted)
    axis.set_xticks(range(len(sizes)), sizes)
    axis.set_title(TITLES[name], fontsize=10, color=INK)
    axis.spines[["top", "right"]].set_visible(False)


def _ours(axis: Axes, at: float, ours: Mapping[str, Any], *, labelled: bool) -> None:
    """Phases are medians each, so they are scaled to add up to the median of the whole."""
    phases = {phase: ours["phases_p50"].get(phase, 0.0) for phase in PHASES}
    told = sum(phases.values()) or 1.0
    floor = 0.0
    for phase, seconds in phases.items():
        height = seconds * ours["p50_s"] / told
        label = phase.removesuffix("_s").replace("_", " ") if labelled else None
        axis.bar(at, height, 0.36, bottom=floor, color=PHASE_COLOURS[phase], label=label)
        floor += height


def _range(axis: Axes, at: float, summary: Mapping[str, Any]) -> None:
    axis.plot([at, at], [summary["min_s"], summary["max_s"]], color=INK, linewidth=1)
