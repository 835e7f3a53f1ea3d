"""Everything Understudy raises.

::

    UnderstudyError                      what happened, where, and the remedy
    ├── SettingsError           (exit 2) a setting or argument is wrong; nothing was touched
    ├── EnvironmentProblem      (exit 3) Java, Spark, the fence's jar or a system package is missing or unsuitable
    ├── DocumentError           (exit 4)
    │   ├── DocumentUnreadable           stored bytes cannot be understood: never taken for "free" or "no job"
    │   ├── DocumentTooLarge             refused before the server would
    │   ├── DocumentEmptied              content is gone although an epoch was granted
    │   ├── AccessDenied    (exit 7) a server knows us, and we may not do that
    │   ├── ServerUnreachable (exit 8) a server does not answer
    │   ├── CheckpointLost               a checkpoint or sink is gone, or was restored from a copy
    │   └── CheckpointDrained            a query was drained, and its checkpoint is not gone on from
    ├── IdentityConflict        (exit 5) another job id, another cluster's claim, another lock kind
    ├── ScriptProblem           (exit 6) the script is missing, never starts a query, or uses Spark where no gate is
    ├── JobFailed               (exit 1) the job used up its restarts
    ├── JobNotBegun             (exit 9) no replica has ever led this job
    ├── JobSuspended            (exit 1) the job is SUSPENDED: no replica may lead it
    ├── JobPaused               (exit 1) the job is paused: no standby may take over
    ├── RequestRefused          (exit 10) what was asked of a job was refused, and nothing was changed
    ├── RequestFailed           (exit 11) it was tried and did not succeed; the job runs on
    ├── RequestUnanswered       (exit 12) no leader has answered in time; the request stays
    ├── JobNotEnded             (exit 13) a run has no result yet
    ├── ReplicaStopped          (exit 143) a replica in a Job's pod was told to stop
    ├── ProcessesRemain         (exit 71) a driver was killed, and the kernel does not end it
    └── InternalError           (exit 70) a part of this replica failed in a way nothing was prepared for

    LeadershipLost (BaseException)       this replica may not write any more

``LeadershipLost`` derives from ``BaseException`` on purpose: a script's ``except Exception: retry`` must not eat it.
"""

from __future__ import annotations

from typing import Self


class UnderstudyError(Exception):
    """An error with its place and its remedy; printed as one line by the command line."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what)

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line}. {self.remedy}" if self.remedy else line


class SettingsError(UnderstudyError):
    exit_code = 2


class EnvironmentProblem(UnderstudyError):
    exit_code = 3


class DocumentError(UnderstudyError):
    exit_code = 4


class DocumentUnreadable(DocumentError):
    """Stored bytes that cannot be understood. ``revision`` lets the rightful holder replace them by compare-and-set."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", revision: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.revision = revision


class DocumentTooLarge(DocumentError):
    pass


class DocumentEmptied(DocumentError):
    pass


class CheckpointLost(DocumentError):
    @classmethod
    def of(cls, root: str, what: str) -> Self:
        """Of a root that is not what this job has left there. It can be accepted."""
        return cls(
            what,
            where=root,
            remedy=f"Restore it from a newer copy; or, if the loss is accepted, run understudy resume --accept-checkpoint {root}: "
            "what was read since then is read again",
        )


class CheckpointDrained(DocumentError):
    @classmethod
    def of(cls, root: str) -> Self:
        return cls(
            "the query of this checkpoint was drained: to it, every row that comes now is late, and would be dropped",
            where=root,
            remedy="Give the query another checkpoint directory; or empty this one, and run understudy resume --accept-checkpoint "
            f"{root}",
        )


class AccessDenied(DocumentError):
    exit_code = 7


class ServerUnreachable(DocumentError):
    exit_code = 8


class JobNotBegun(UnderstudyError):
    exit_code = 9


class JobNotEnded(UnderstudyError):
    exit_code = 13


class JobSuspended(UnderstudyError):
    """Keeps a replica from contending; no command ends with it."""


class JobPaused(UnderstudyError):
    """Keeps a replica from contending; no command ends with it."""


class RequestRefused(UnderstudyError):
    exit_code = 10


class RequestFailed(UnderstudyError):
    exit_code = 11


class RequestUnanswered(UnderstudyError):
    exit_code = 12


class IdentityConflict(UnderstudyError):
    exit_code = 5


class ScriptProblem(UnderstudyError):
    exit_code = 6


class JobFailed(UnderstudyError):
    exit_code = 1


class ReplicaStopped(UnderstudyError):
    """In a Job's pod, where 0 would say that the run has ended. The code is that of a process that SIGTERM has ended."""

    exit_code = 143


class InternalError(UnderstudyError):
    """What nothing was prepared for: a defect, or a machine without memory or descriptors. The cause is chained."""

    exit_code = 70


class ProcessesRemain(UnderstudyError):
    """The lock is never released with it: what was killed may still end a system call that it has begun."""

    exit_code = 71


class LeadershipLost(BaseException):
    """This replica may not write any more: its lease ended, or a higher token was seen."""
