"""What the demo shows: a board that updates itself on a terminal, plain lines everywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bench.local_flights import CLUSTER, LocalFlights
from testkit.comparison import Comparison
from testkit.feeds import DAYS
from testkit.phases import PHASES, Takeover


class Screen(Protocol):
    def say(self, sentence: str) -> None: ...
    def killing(self, kind: str, sentence: str) -> None: ...
    def takeover(self, takeover: Takeover) -> None: ...
    def compared(self, comparison: Comparison) -> None: ...
    def verdict(self, report: dict[str, Any], changes: Sequence[str], out: Path, seconds: float) -> None: ...


def seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def takeover_table(takeovers: Sequence[Takeover]) -> Table:
    """Takeovers by phase, in seconds."""
    table = Table(
        title="takeovers, seconds by phase", title_justify="left", header_style="bold", box=None, pad_edge=False
    )
    for name in ("killed", "epoch", *(phase.removesuffix("_s").replace("_", " ") for phase in PHASES), "total"):
        table.add_column(name, justify="left" if name == "killed" else "right")
    for each in takeovers:
        phases = [seconds(each.phases.get(phase)) for phase in PHASES]
        table.add_row(each.kind, str(each.epoch), *phases, f"[bold]{each.total_s:.2f}[/bold]")
    return table


@dataclass(slots=True)
class Plain:
    """One line per thing that happened, with the seconds since the start in front."""

    console: Console
    began: float = field(default_factory=time.monotonic)
    takeovers: list[Takeover] = field(default_factory=list)

    def say(self, sentence: str) -> None:
        self.console.print(
            f"{time.monotonic() - self.began:6.1f} s  {sentence}", highlight=False, markup=False, soft_wrap=True
        )

    def killing(self, kind: str, sentence: str) -> None:
        self.say(f"[{kind}] {sentence}")

    def takeover(self, takeover: Takeover) -> None:
        self.takeovers.append(takeover)
        parts = ", ".join(
            f"{name.removesuffix('_s').replace('_', ' ')} {seconds(value)}"
            for name, value in takeover.phases.items()
            if value is not None
        )
        self.say(
            f"[{takeover.kind}] first rows committed after {takeover.total_s:.2f} s by epoch {takeover.epoch} "
            f"({takeover.query}, batch {takeover.batch}{'; ' + parts if parts else ''})"
        )

    def compared(self, comparison: Comparison) -> None:
        self.say(
            f"{comparison.sink}: {comparison.rows} rows of {comparison.rows_expected}, {comparison.flights} flights of "
            f"{comparison.flights_expected}; lost {comparison.lost}, repeated {comparison.repeated}"
        )
        for example in comparison.examples:
            self.say(f"    {example}")

    def verdict(self, report: dict[str, Any], changes: Sequence[str], out: Path, seconds: float) -> None:
        self.console.print()
        self.console.print(takeover_table(self.takeovers))
        self.console.print()
        for change in changes[:10]:
            self.say(f"the thawed leader: {change}")
        self.say(
            f"rows lost {report['rows_lost']}, repeated {report['rows_repeated']} of {report['rows_expected']:,}; "
            f"stale writes refused {report['stale_writes_refused']}, accepted {report['stale_writes_accepted']}"
        )
        self.say(f"{out / 'timeline.png'}  {out / 'report.json'}")
        self.say(f"{'OK' if report['ok'] else 'NOT OK'} after {seconds:.0f} s")


@dataclass(slots=True)
class Board(Plain):
    """The same lines, and below them a board: who leads, who rehearsed when, how far the year is."""

    flights: LocalFlights | None = None
    now_doing: str = "starting"

    def killing(self, kind: str, sentence: str) -> None:
        self.now_doing = sentence
        Plain.killing(self, kind, sentence)

    def picture(self) -> Group:
        flights = self.flights
        if flights is None:
            return Group()
        replicas = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        for name in ("replica", "role", "rehearsed", "how", "rounds", "waits at"):
            replicas.add_column(name)
        told = {each.pid: each for each in flights.standings()}
        for replica in flights.deployment.replicas:
            each = told.get(replica.pid or -1)
            if replica.pid is None:
                replicas.add_row(replica.name, Text("gone", style="red"), "", "", "", "")
            elif each is None:
                replicas.add_row(replica.name, Text("starting", style="yellow"), "", "", "", "")
            elif each.role == "leader":
                replicas.add_row(replica.name, Text("leads", style="bold green"), "", "", "", "")
            else:
                when = f"{time.time() - each.rehearsed_at:.0f} s ago" if each.rehearsed else "not yet"
                style = "green" if each.rehearsed else "yellow"
                rounds = str(each.rounds or "")
                replicas.add_row(
                    replica.name, "stands by", Text(when, style=style), each.how, rounds, Path(each.held).name
                )
        feed = flights.feed
        progress = Table.grid(padding=(0, 1), expand=True)
        progress.add_column(width=24)
        progress.add_column(ratio=1)
        progress.add_row(f"{feed.fed} of {DAYS} days fed", ProgressBar(total=DAYS, completed=feed.fed))
        parts: list[Any] = [replicas, progress]
        if self.takeovers:
            parts.append(takeover_table(self.takeovers))
        minutes, left = divmod(int(time.monotonic() - self.began), 60)
        return Group(Panel(Group(*parts), title=f"{CLUSTER} · {self.now_doing}", subtitle=f"{minutes}:{left:02d}"))


@contextmanager
def screen(flights: LocalFlights) -> Iterator[Screen]:
    """A board on a terminal, plain lines into files and pipes."""
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        yield Plain(console)
        return
    board = Board(console, flights=flights)
    stopped = threading.Event()

    def paint() -> None:
        while not stopped.wait(0.5):
            live.update(board.picture(), refresh=True)
        live.update(Group(), refresh=True)

    with Live(console=console, transient=True, auto_refresh=False) as live:
        painter = threading.Thread(target=paint, name="board", daemon=True)
        painter.start()
        try:
            yield board
        finally:
            stopped.set()
            painter.join()
