"""The record of a job: what it is, who runs it, how it ended, and what it is asked to do. ``job_store`` reads and writes it."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from understudy.config.tree import MOST_ATTEMPTS
from understudy.documents import codec
from understudy.documents.model import Content, Document
from understudy.election.retrieval import ComponentLeader
from understudy.errors import DocumentEmptied, DocumentUnreadable
from understudy.ha import components as leaders
from understudy.ha import ownership
from understudy.ha import roots as claimed_roots
from understudy.ha import runs as run_store
from understudy.ha.checkpoints import Checkpoint, Checkpoints
from understudy.ha.components import Components
from understudy.ha.generation import Generation
from understudy.ha.requests import Requests
from understudy.ha.roots import ClaimedRoots
from understudy.ha.runs import Over, Part, Runs, UnderWay, part_of
from understudy.ha.savepoints import Savepoint, Savepoints
from understudy.ha.submissions import Submissions
from understudy.protocol.names import JOB_LABELS
from understudy.protocol.token import NONE, Token

ENTRY = ownership.JOB
_KIND = "job"
_VERSION = 1
RESTORE = "Restore the document, or choose another cluster id"
#: One more than the restart strategy may allow (``MOST_ATTEMPTS``): a document does not grow with a job that fails again and again.
_MOST_FAILURES = MOST_ATTEMPTS + 1


class Status(enum.StrEnum):
    """A newer release may write others. They are read as they stand, for people; see ``Job.understood``."""

    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    DRAINING = "DRAINING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str) or not value:
            return None
        unknown = str.__new__(cls, value)
        unknown._name_, unknown._value_ = value, value
        return unknown

    @property
    def known(self) -> bool:
        return self._name_ in Status.__members__

    @property
    def terminal(self) -> bool:
        return self in {Status.FINISHED, Status.FAILED, Status.CANCELED}


@dataclass(frozen=True, slots=True)
class Job:
    """What stands in the document.

    ``token`` is the highest that ran or runs the job; ``serving`` the one that last reached a first commit. ``failures`` holds
    the times (seconds, wall clock) at which drivers have failed, until one has run for the restart window; ``roots`` what the job's newest
    two tokens have claimed, which ``claimed`` tells apart (an entry of its own in the document); ``generation`` is the newest
    that has led. ``failed`` is the token of the last failure that was counted; where an older image has dropped that, it counts once more at worst. ``runs``, ``requests``, ``checkpoints``, ``savepoints``, ``components`` and ``submissions`` stand in entries of their own, too: older
    replicas drop fields they do not know.
    """

    job: str
    script: str
    status: Status
    token: Token
    serving: Token
    holder: str
    failures: tuple[float, ...] = ()
    roots: tuple[str, ...] = ()
    committed_at: float = 0.0
    reason: str = ""
    generation: Generation = field(default_factory=Generation)
    failed: Token = NONE
    claimed: ClaimedRoots = field(default_factory=ClaimedRoots)
    runs: Runs = field(default_factory=Runs)
    requests: Requests = field(default_factory=Requests)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    savepoints: Savepoints = field(default_factory=Savepoints)
    components: Components = field(default_factory=Components)
    submissions: Submissions = field(default_factory=Submissions)

    def part_of(self, run: str) -> Part:
        """What a replica that was started for ``run`` may do."""
        return part_of(run, self.runs, self.status.value, terminal=self.status.terminal)

    def with_failure(self, token: Token, now: float, window: float, reason: str) -> Job:
        """With the failure of ``token``'s driver at ``now`` (s since 1970), once.

        Earlier failures are forgotten first where another driver has committed ``window`` seconds or more after the last of them and then
        ended without one: older releases forgot none before the next was counted.
        """
        if self.failed == token:  # a token is one start of one driver: the answer to an earlier try was lost
            return self
        worked = self.committed_at - self.failures[-1] if self.failures and self.serving not in {NONE, token} else 0.0
        earlier = () if worked >= window else self.failures
        return replace(self, failures=(*earlier, now)[-_MOST_FAILURES:], failed=token, reason=reason)

    def without_failures(self, token: Token) -> Job:
        """With none, as the driver of ``token`` has run well; as it is where that driver has failed meanwhile."""
        return self if self.failed == token else replace(self, failures=())

    @property
    def never_led(self) -> bool:
        """Whether something was submitted for it, or it was declared to run, and no replica has led it since."""
        return self.status is Status.RUNNING and self.token == NONE

    def over_for(self, run: str) -> bool:
        return isinstance(self.part_of(run), Over)

    def not_led_for(self, run: str) -> bool:
        """Whether no leader may claim it for ``run``: that run has ended, the job is SUSPENDED, or another run of it is DRAINING."""
        return self.over_for(run) or self.kept_from(run)

    def kept_from(self, run: str) -> bool:
        """Whether it stays as it is although ``run`` has not ended: it is SUSPENDED, or another run of it is DRAINING, and is not to be canceled."""
        other = self.status is Status.DRAINING and bool(self.other_run_than(run))
        return self.status is Status.SUSPENDED or (other and not self.requests.cancels)

    def other_run_than(self, run: str) -> str:
        """The id of the run under way, where it is another than ``run``; else empty."""
        part = self.part_of(run)
        return part.run if isinstance(part, UnderWay) else ""

    @property
    def draining(self) -> tuple[str, ...] | None:
        """The checkpoints whose queries are being drained, while the job is DRAINING; else ``None``."""
        return self.checkpoints.draining if self.status is Status.DRAINING else None

    @property
    def warm(self) -> bool:
        """Whether its standbys rehearse while it is SUSPENDED, so that one of them is ready when it is resumed."""
        return self.requests.request is not None and self.requests.request.warm

    @property
    def savepoints_now(self) -> tuple[Savepoint, ...]:
        """What there is of them: one that was begun counts as failed once its request is not under way any more."""
        under_way = self.requests.under_way
        return self.savepoints.as_of("" if under_way is None else under_way.id)

    @property
    def saving(self) -> bool:
        """Whether the request under way has begun a savepoint."""
        under_way = self.requests.under_way
        return under_way is not None and self.savepoints.of_request(under_way.id) is not None

    def leader_of(self, component: str) -> ComponentLeader | None:
        """As the job's document tells it: of a job that runs, what was confirmed under the epoch that runs it."""
        if self.token == NONE or self.status.terminal or self.status is Status.SUSPENDED:
            return None
        if component == leaders.JOB:
            return ComponentLeader(self.token, self.holder, "")
        found = self.components.leader(component)
        if found is None or (found.token.epoch, found.holder) != (self.token.epoch, self.holder):
            return None
        return found

    def noted(self, found: Collection[Checkpoint]) -> Self:
        """With what a leader has found in its checkpoints."""
        return replace(self, checkpoints=self.checkpoints.noted(found, self.roots)) if found else self

    def understood(self, where: str) -> Job:
        """Return this job to a caller that is going to lead it or to change its document.

        Raises ``DocumentUnreadable`` when its status is of a newer release: what that asks of a leader is not known here.
        """
        if not self.status.known:
            raise DocumentUnreadable(
                f"the job's status is {self.status.value!r}, which this release does not know",
                where=where,
                remedy="A newer release wrote it: run that one, or let it bring the job back to RUNNING first",
            )
        return self

    def body(self) -> dict[str, object]:
        return {
            "job": self.job,
            "script": self.script,
            "status": self.status.value,
            "token": int(self.token),
            "serving": int(self.serving),
            "holder": self.holder,
            "failures": list(self.failures),
            "roots": list(self.roots),
            "committed_at": self.committed_at,
            "reason": self.reason,
            "generation": self.generation.body(),
            "failed": int(self.failed),
        }

    @classmethod
    def of(cls, document: Document) -> Job:
        """Raises ``DocumentUnreadable`` for what cannot be understood and ``DocumentEmptied`` for a document without a job."""
        try:
            job = _from_body(stored_record(document))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            reason = f"the job's record lacks a field, or has one amiss: {error!r}"
            raise DocumentUnreadable(reason, where=document.name, remedy=RESTORE, revision=document.revision) from error
        checkpoints = Checkpoints.of(document)
        if job.status is Status.DRAINING and not checkpoints.readable:
            raise DocumentUnreadable(
                "the job is DRAINING, and which of its queries are drained cannot be read",
                where=document.name,
                remedy=RESTORE,
                revision=document.revision,
            )
        claimed = ClaimedRoots.of(document.entries.get(claimed_roots.ENTRY), job.roots, job.token)
        return replace(
            job,
            claimed=claimed,
            roots=claimed.all,
            runs=Runs.of(document),
            requests=Requests.of(document),
            checkpoints=checkpoints,
            savepoints=Savepoints.of(document),
            components=Components.of(document),
            submissions=Submissions.of(document),
        )


def leader_of(document: Document | None, component: str) -> ComponentLeader | None:
    """The leader of ``component`` as a job's document tells it. Raises ``DocumentError``."""
    return None if document is None or document.buried else Job.of(document).leader_of(component)


def stored_record(document: Document) -> dict[str, object]:
    """The record as it was written, fields of newer releases included."""
    text = document.entries.get(ENTRY)
    if text is None:
        raise DocumentEmptied("the job's record is gone", where=document.name, remedy=RESTORE)
    return codec.decode(_KIND, text, where=document.name, revision=document.revision)[1]


def content(document: Document | None, stored: Mapping[str, object], job: Job, wanted: Job, nonce: str) -> Content:
    """What to write so that ``wanted`` stands where ``job`` does; fields of a newer release stay."""
    body = {**stored, **wanted.body(), "nonce": nonce}
    if stored and wanted.generation == job.generation:
        body["generation"] = stored["generation"]
    entries: dict[str, str | None] = {
        ENTRY: codec.encode(_KIND, _VERSION, body),
        claimed_roots.ENTRY: wanted.claimed.encode(),
    }
    if wanted.runs != job.runs:
        entries[run_store.ENTRY] = wanted.runs.encode(document)
    if wanted.requests != job.requests:
        entries.update(wanted.requests.entries(job.requests))
    entries.update(wanted.checkpoints.entries(job.checkpoints))
    entries.update(wanted.savepoints.entries(job.savepoints))
    entries.update(wanted.components.entries(job.components))
    entries.update(wanted.submissions.entries(job.submissions))
    return Content(entries, None if document is None else document.leader, JOB_LABELS)


def _from_body(body: Mapping[str, object]) -> Job:
    def of(name: str) -> object:
        return body[name]

    return Job(
        job=str(of("job")),
        script=str(of("script")),
        status=Status(str(of("status"))),
        token=Token.from_int(int(str(of("token")))),
        serving=Token.from_int(int(str(of("serving")))),
        holder=str(of("holder")),
        failures=tuple(float(str(each)) for each in _list(of("failures"))),
        roots=tuple(str(each) for each in _list(of("roots"))),
        committed_at=float(str(of("committed_at"))),
        reason=str(of("reason")),
        generation=_generation(of("generation")),
        failed=Token.from_int(int(str(body.get("failed", 0)))),
    )


def _generation(value: object) -> Generation:
    if not isinstance(value, dict):
        raise DocumentUnreadable(f"the job's generation is {value!r}", remedy=RESTORE)
    submission = int(value.get("submission", 0))
    return Generation(int(value["number"]), str(value["digest"]), str(value["workload"]), submission)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []
