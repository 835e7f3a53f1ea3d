"""What the local cluster is called, and where everything of it is. Nothing here touches the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: The context in the kubeconfig. ``make e2e`` uses a cluster of this name without asking.
CONTEXT = "lab"
CONTROL = "control"
#: Addresses are planned for that many (see ``boot.sh``).
MOST_NODES = 9
API = "https://10.99.0.1:6443"
#: Where a proxy for HTTP would not find anything.
NETWORKS = "10.99.0.0/24,10.96.0.0/16,10.244.0.0/16"

#: Beside this file: what machines boot from, and the Go modules.
SOURCES = Path(__file__).parent
REPOSITORY = SOURCES.parents[1]


class Problem(Exception):
    """One line that says what is wrong and what to do."""


def node_name(number: int) -> str:
    if not 1 <= number <= MOST_NODES:
        raise Problem(f"there is no node {number}: nodes are 1 to {MOST_NODES}")
    return f"node{number}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Directories under one home, outside every checkout: there is one cluster on a machine, for all users.

    ``home`` keeps what is compiled; ``state`` is all that a running cluster writes, and goes with ``down``. It must be on a
    file system that overlayfs can lie on: a disk, not a tmpfs or an overlay.
    """

    home: Path

    @classmethod
    def default(cls) -> Layout:
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return cls(Path(cache) / "understudy" / "cluster")

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def credentials(self) -> Path:
        return self.state / "credentials"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def sysctls(self) -> Path:
        """What the kernel's settings were before the first kubelet changed them."""
        return self.state / "sysctls.json"

    def disk(self, machine: str) -> Path:
        """A machine's ``/var``; it outlives its crashes."""
        return self.state / machine
