"""What ``understudy run`` was told, checked, and the places derived from it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from understudy.config.timings import Timings
from understudy.errors import ScriptProblem, SettingsError
from understudy.ha.runs import check_run_id
from understudy.protocol.names import Names, check_id

LOCKS = ("file", "lease", "configmap", "multi")
REHEARSALS = ("live", "synthetic", "plan", "off")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """One replica's settings. ``rehearse_every``, ``stop_patience``, ``takeover_timeout``, ``restart_window`` and ``standby_max_age``
    in seconds.

    ``lock_kind``: ``file`` on one machine; ``lease``, ``configmap`` or ``multi`` (both) in a cluster, where ``namespace`` is empty
    for the pod's own.
    ``checkpoints``: where a query without a checkpoint location of its own gets one. ``scratch``: where rehearsals write; empty for
    this machine's disk, which executors on other machines do not reach. ``standby_executors``: how many a standby keeps warm where
    executors are pods. ``run_id``: which run of the job this replica is for; empty for the one under way.
    """

    script: Path
    arguments: tuple[str, ...]
    submit: tuple[str, ...]
    cluster: str
    job: str
    ha_dir: Path
    timings: Timings
    rehearse: str = "live"
    rehearse_rounds: int = 32
    rehearse_every: float = 30.0
    rehearse_rows: int = 10_000_000
    rehearse_bytes: int = 2 * 10**9
    stop_patience: float = 0.3
    takeover_timeout: float = 120.0
    restart_attempts: int = 10
    restart_delay: float = 1.0
    restart_window: float = 600.0
    lock_kind: str = "file"
    namespace: str = ""
    checkpoints: str = ""
    scratch: str = ""
    standby_executors: int = 1
    standby_max_age: float = 3600.0
    tune: bool = False
    run_id: str = ""

    def __post_init__(self) -> None:
        check_id(self.cluster, "--cluster-id")
        check_id(self.job, "--job-id")
        check_run_id(self.run_id)
        if self.names.collide:
            raise SettingsError(
                f"{self.names.job_document} is the name of another document",
                where="--job-id",
                remedy="Name the job for what it computes",
            )
        if self.lock_kind not in LOCKS:
            raise SettingsError(
                f"unknown lock {self.lock_kind!r}", where="--lock", remedy=f"Choose one of {', '.join(LOCKS)}"
            )
        if self.in_cluster and self.timings.lease != int(self.timings.lease):
            raise SettingsError(
                f"{self.timings.lease} s cannot be written into a Kubernetes lock, which holds whole seconds",
                where="--timing lease",
                remedy="Use a whole number",
            )
        if not self.script.is_file():
            raise ScriptProblem("no such script", where=str(self.script), remedy="Give the path of a Python file")
        if self.rehearse not in REHEARSALS:
            raise SettingsError(
                f"unknown mode {self.rehearse!r}", where="--rehearse", remedy=f"Choose one of {', '.join(REHEARSALS)}"
            )
        for name, least in (
            ("rehearse_rounds", 1),
            ("rehearse_rows", 1),
            ("rehearse_bytes", 1),
            ("restart_attempts", 0),
            ("standby_executors", 0),
        ):
            if getattr(self, name) < least:
                raise SettingsError(
                    f"{getattr(self, name)} is below {least}", where=f"--{name.replace('_', '-')}", remedy="Raise it"
                )
        for name in (
            "rehearse_every",
            "stop_patience",
            "takeover_timeout",
            "restart_delay",
            "restart_window",
            "standby_max_age",
        ):
            if not getattr(self, name) > 0:
                raise SettingsError(
                    f"{getattr(self, name)} s is not above 0", where=f"--{name.replace('_', '-')}", remedy="Raise it"
                )

    @property
    def in_cluster(self) -> bool:
        return self.lock_kind != "file"

    @property
    def checkpoint_base(self) -> str:
        """Empty where there is no place that all replicas share: then every query has to name its own."""
        if self.checkpoints or self.in_cluster:
            return self.checkpoints
        return str(self.home / "checkpoints" / self.job)

    @property
    def home(self) -> Path:
        return self.ha_dir / self.cluster

    @property
    def names(self) -> Names:
        return Names(self.cluster, self.job)

    @property
    def digest(self) -> str:
        """Digest of what runs: script, arguments and spark-submit options. A changed script is an upgrade, not another job."""
        digest = hashlib.sha256(self.script.read_bytes())
        for part in (*self.arguments, "--", *self.submit):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()[:12]
