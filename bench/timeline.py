"""The demo as a picture: who was what when, what reached the sinks meanwhile, and where each takeover's time went."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testkit.phases import PHASES, Takeover

if TYPE_CHECKING:
    from bench.local_flights import LocalFlights
    from testkit.tails import Said

# One hue for what matters (leading), greys for what waits, one warm colour for what was done to it.
LEADS, READY, WARMING, FROZEN, KILL, INK, FAINT = (
    "#1f6f5c",
    "#a9cfc3",
    "#e4e4df",
    "#7a86b8",
    "#c8402f",
    "#26302d",
    "#8b938f",
)
PHASE_COLOURS = {
    "detect_s": "#c8402f",
    "acquire_s": "#e08a4f",
    "claim_s": "#e9c46a",
    "start_s": "#7fb5a5",
    "first_commit_s": "#1f6f5c",
}
SINK_COLOURS = {"delays": "#1f6f5c", "flights": "#d9822b"}


@dataclass(frozen=True, slots=True)
class Span:
    """A replica in one state for a while; seconds since the start of the demo."""

    lane: int
    start: float
    end: float
    state: str


@dataclass(slots=True)
class Story:
    """Everything in the picture, in seconds since the first replica was started."""

    spans: list[Span] = field(default_factory=list)
    takeovers: list[tuple[float, Takeover]] = field(default_factory=list)
    thawed: float | None = None
    progress: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    end: float = 1.0


def spans_of(
    lane: int, born: float, died: float, said: Iterable[Said], frozen: tuple[float, float] | None
) -> list[Span]:
    """The states of one run of a supervisor, from what it said. Times as given; ``frozen`` overrides everything else."""
    turns: list[tuple[float, str]] = [(born, "warming")]
    for each in sorted(said, key=lambda said: said.at):
        match each.event:
            case "rehearsed":
                turns.append((each.at, "ready"))
            case "acquired":
                turns.append((each.at, "leads"))
            case "not-rehearsed" | "released" | "stepped-down" | "standby-ended" | "driver-died":
                turns.append((each.at, "warming"))
            case _:
                continue
    if frozen is not None and born < frozen[0] < died:
        thaw = min(frozen[1], died)
        turns = [(at, state) for at, state in turns if not frozen[0] <= at < thaw]
        turns += [(frozen[0], "frozen"), (thaw, "warming")]
        turns.sort(key=lambda turn: turn[0])
    ends = [*(at for at, _ in turns[1:]), died]
    return [
        Span(lane, at, min(end, died), state)
        for (at, state), end in zip(turns, ends, strict=True)
        if min(end, died) > at
    ]


def collect(flights: LocalFlights, takeovers: Sequence[Takeover], thawed_at: float | None) -> Story:
    """Read the story out of what the run left behind."""
    lives = flights.deployment.lives
    zero = min((life.born for life in lives), default=0.0)
    said = flights.events.read()
    stop = max((life.died or 0.0 for life in lives), default=zero) or max((each.at for each in said), default=zero)
    frozen = next((each for each in takeovers if each.kind == "frozen"), None)
    story = Story(end=stop - zero)
    for life in lives:
        stood = None
        if frozen is not None and thawed_at is not None and flights.victims.get("frozen") == life.pid:
            stood = (frozen.killed_at - zero, thawed_at - zero)
        own = [each for each in said if each.log == life.log]
        moved = [type(each)(each.at - zero, each.event, each.log, each.facts) for each in own]
        story.spans += spans_of(life.lane, life.born - zero, (life.died or stop) - zero, moved, stood)
    story.takeovers = [(each.killed_at - zero, each) for each in takeovers]
    story.thawed = None if thawed_at is None else thawed_at - zero
    for query in SINK_COLOURS:
        rows = source_rows(flights.checkpoints / query, flights.input)
        total = 0
        line = [(0.0, 0)]
        fed = (each for each in flights.watch.commits if each.query == query and each.input)
        for entry, commit in enumerate(fed):  # each batch with input is one entry of the source's log; others have none
            total += rows.get(entry, 0)
            line.append((commit.seen - zero, total))
        story.progress[query] = line
    return story


def source_rows(checkpoint: Path, source: Path) -> dict[int, int]:
    """Flights per entry of the file source's log: the rows of the files it lists. The closing file counts nothing."""
    rows: dict[int, int] = {}
    seen: set[str] = set()
    for entry in sorted((checkpoint / "sources" / "0").glob("[0-9]*")):
        for line in entry.read_text(encoding="utf-8").splitlines()[1:]:
            found = json.loads(line)
            name = found["path"].rpartition("/")[2]
            if name in seen or name == "end.csv":
                continue
            seen.add(name)
            batch = int(found["batchId"])
            rows[batch] = rows.get(batch, 0) + (source / name).read_bytes().count(b"\n") - 1
    return rows


def draw(story: Story, path: Path) -> None:
    """Write the picture (PNG)."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    figure, (lanes, sums, bars) = plt.subplots(
        3, 1, figsize=(13, 10.2), gridspec_kw={"height_ratios": [2.3, 2.2, 2.6], "hspace": 0.42}, layout=None
    )
    figure.subplots_adjust(left=0.085, right=0.975, top=0.88, bottom=0.06)
    figure.suptitle(
        "One Spark job, six ways to lose its driver", x=0.085, y=0.972, ha="left", fontsize=17, fontweight="bold"
    )
    figure.text(
        0.085,
        0.932,
        "Three replicas of examples/flights.py over 336,776 flights; the leader is killed, frozen or rolled again and again.",
        fontsize=10.5,
        color=FAINT,
    )
    _draw_lanes(lanes, story, Patch, Line2D)
    _draw_sums(sums, story)
    _draw_bars(bars, story, Patch)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, facecolor="white")
    plt.close(figure)


def _draw_lanes(axes: Any, story: Story, patch: Any, line: Any) -> None:
    colours = {"leads": LEADS, "ready": READY, "warming": WARMING, "frozen": FROZEN}
    for span in story.spans:
        axes.barh(
            span.lane,
            span.end - span.start,
            left=span.start,
            height=0.52,
            color=colours[span.state],
            linewidth=0,
            zorder=2,
        )
    top = -0.62
    for at, takeover in story.takeovers:
        axes.axvline(at, color=KILL, linewidth=1, zorder=3)
        axes.text(at, top, takeover.kind, color=KILL, ha="center", va="bottom", fontsize=9.5, fontweight="bold")
    if story.thawed is not None:
        axes.axvline(story.thawed, color=FROZEN, linewidth=1, linestyle=(0, (3, 2)), zorder=3)
        # to the left of its line: the next kill may follow soon
        axes.text(story.thawed, top, "thaw ", color=FROZEN, ha="right", va="bottom", fontsize=9.5, fontweight="bold")
    axes.set_ylim(2.5, -0.55)
    axes.set_yticks(range(3), [f"replica {index + 1}" for index in range(3)])
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, story.end)
    names = (
        ("leads", "leads"),
        ("ready", "stands by, rehearsed"),
        ("warming", "starting or rehearsing"),
        ("frozen", "frozen"),
    )
    axes.legend(
        handles=[
            *(patch(color=colours[state], label=name) for state, name in names),
            line([], [], color=KILL, label="kill"),
        ],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.1),
        ncols=5,
        frameon=False,
        fontsize=9,
        handlelength=1.2,
    )


def _draw_sums(axes: Any, story: Story) -> None:
    for at, _ in story.takeovers:
        axes.axvline(at, color=KILL, linewidth=0.8, alpha=0.5, zorder=1)
    labels = {"delays": "delays → parquet", "flights": "flights → SQLite"}
    for query, line in story.progress.items():
        times, totals = [at for at, _ in line], [total for _, total in line]
        axes.step(times, totals, where="post", color=SINK_COLOURS[query], linewidth=1.8, label=labels[query], zorder=2)
    axes.set_xlim(0, story.end)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:.0f}k")
    axes.set_ylabel("flights committed")
    axes.set_xlabel("seconds since the start", loc="right", labelpad=2)
    axes.grid(axis="y", color="#ecece8", zorder=0)
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def _draw_bars(axes: Any, story: Story, patch: Any) -> None:
    takeovers = [takeover for _, takeover in story.takeovers]
    longest = max((each.total_s for each in takeovers), default=1.0)
    for row, each in enumerate(takeovers):
        left = 0.0
        for phase in PHASES:
            value = each.phases.get(phase)
            if value:
                axes.barh(row, value, left=left, height=0.56, color=PHASE_COLOURS[phase], linewidth=0, zorder=2)
                left += value
        if left < each.total_s:  # the replicas said less than the observer saw
            axes.barh(row, each.total_s - left, left=left, height=0.56, color=WARMING, linewidth=0, zorder=2)
        axes.text(
            each.total_s + longest * 0.008, row, f"{each.total_s:.2f} s", va="center", fontweight="bold", fontsize=10
        )
    axes.set_yticks(range(len(takeovers)), [each.kind for each in takeovers])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, longest * 1.1)
    axes.grid(axis="x", color="#ecece8", zorder=0)
    axes.set_title(
        "kill → first rows committed by the new leader, seconds", loc="left", fontsize=11, fontweight="bold", pad=26
    )
    names = ("detect", "acquire the lock", "claim", "start the queries", "first commit")
    axes.legend(
        handles=[patch(color=PHASE_COLOURS[phase], label=name) for phase, name in zip(PHASES, names, strict=True)],
        loc="lower left",
        bbox_to_anchor=(-0.008, 1.0),
        ncols=5,
        frameon=False,
        fontsize=9,
        handlelength=1.2,
        borderaxespad=0.2,
    )
