"""What a driver is made of on a machine: its process, its gate, the counters of its fence, and its directories.

The simulator has others. There, nothing is a process and nothing has files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.fencing.counters import CountersPage
from understudy.fencing.gate import GateWriter
from understudy.supervisor.driver_process import DriverProcess
from understudy.supervisor.workspace import Workspace, Workspaces


@dataclass(frozen=True, slots=True)
class DriverParts:
    """How each part is made. The arguments are those of the classes that production makes."""

    process: Callable[..., DriverProcess] = DriverProcess
    gate: Callable[[Path], GateWriter] = GateWriter
    counters: Callable[[Path], CountersPage] = CountersPage.create
    workspaces: Callable[[Path, str], Workspaces] = Workspaces
    workspace: Callable[[Workspaces], Workspace] = Workspace
