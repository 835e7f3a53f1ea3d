"""What ``understudy run`` was told, resolved: nothing is left to a default that depends on the script or on where it runs."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from understudy.config.timings import Timings
from understudy.config.tree import Rehearsal, Restart, SparkDefaults, Standby, Storage, Takeover
from understudy.errors import ScriptProblem, SettingsError
from understudy.ha.runs import check_run_id
from understudy.protocol.names import Names, check_id


@dataclass(frozen=True, slots=True)
class RunSettings:
    """One replica's settings. Groups of options are carried as they were declared, in ``config.tree``.

    ``ha``: the name of the high-availability services, and ``lock_kind`` one of their kinds of lock: ``file`` on one machine; ``lease``,
    ``configmap`` or ``multi`` (both) in a cluster, where ``namespace`` is empty for the pod's own. ``ha_address``: where other services are.
    ``run_id``: which run of the job this replica is for; empty for the one under way. ``submitted``: what runs is fetched from HA storage, and
    ``script`` is empty until it is there; then ``submission`` is its number, and ``code`` stands for it and for the options of this command line.

    Raises:
        SettingsError: an id is not one, the lease does not fit the lock, or an option is of no use without another.
        ScriptProblem: there is no such script, or it cannot be known.
    """

    script: Path
    arguments: tuple[str, ...]
    submit: tuple[str, ...]
    cluster: str
    job: str
    ha_dir: Path
    timings: Timings
    lock_kind: str = "file"
    ha: str = "filesystem"
    ha_address: str = ""
    namespace: str = ""
    run_id: str = ""
    submitted: bool = False
    submission: int = 0
    code: str = ""
    storage: Storage = field(default_factory=Storage)
    rehearsal: Rehearsal = field(default_factory=Rehearsal)
    standby: Standby = field(default_factory=Standby)
    takeover: Takeover = field(default_factory=Takeover)
    restart: Restart = field(default_factory=Restart)
    spark: SparkDefaults = field(default_factory=SparkDefaults)

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
        if self.on_kubernetes and self.timings.lease != int(self.timings.lease):
            raise SettingsError(
                f"{self.timings.lease} s cannot be written into a Kubernetes lock, which holds whole seconds",
                where="--timing lease",
                remedy="Use a whole number",
            )
        if self.storage.delete_result_on_commit and not self.storage.ha_storage:
            raise SettingsError(
                "there is no HA storage to delete a result from",
                where="--delete-result-on-commit",
                remedy="Leave it out, or give --ha-storage, too",
            )
        if self.submitted and not self.storage.ha_storage:
            raise SettingsError(
                "there is no HA storage to fetch it from",
                where="--submitted",
                remedy="Give --ha-storage, as understudy submit was given it",
            )
        waits = self.submitted and not self.submission
        if not waits and not _is_there(self.script):
            raise ScriptProblem("no such script", where=str(self.script), remedy="Give the path of a Python file")

    @property
    def on_kubernetes(self) -> bool:
        """Whether an API server keeps the lock and the documents, and each replica is a pod."""
        return self.ha == "kubernetes"

    @property
    def share_a_disk(self) -> bool:
        """Whether all replicas run on one machine, and so read what one of them writes to its disk."""
        return self.ha == "filesystem"

    @property
    def checkpoint_base(self) -> str:
        """Where a query without a checkpoint location gets one; empty where replicas share no place, so that each has to name one."""
        if self.storage.checkpoints or not self.share_a_disk:
            return self.storage.checkpoints
        return str(self.home / "checkpoints" / self.job)

    @property
    def home(self) -> Path:
        return self.ha_dir / self.cluster

    @property
    def names(self) -> Names:
        return Names(self.cluster, self.job)

    @property
    def digest(self) -> str:
        """Digest of what runs: script, arguments and spark-submit options. A changed script is an upgrade, not another job.

        Raises ``ScriptProblem`` for a script that is there and cannot be read.
        """
        if self.code:
            return self.code
        try:
            digest = hashlib.sha256(self.script.read_bytes())
        except OSError as error:
            raise _unreadable(self.script, error) from error
        for part in (*self.arguments, "--", *self.submit):
            digest.update(os.fsencode(part) + b"\0")  # an argument may be any bytes
        return digest.hexdigest()[:12]


def _is_there(script: Path) -> bool:
    try:
        return script.is_file()
    except OSError as error:  # its directory may not be searched
        raise _unreadable(script, error) from error


def _unreadable(script: Path, error: OSError) -> ScriptProblem:
    return ScriptProblem(
        f"it cannot be read: {error.strerror or error}", where=str(script), remedy="See who may read it"
    )
