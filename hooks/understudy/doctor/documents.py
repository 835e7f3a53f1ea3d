"""What the documents of a cluster id say, and whether all of it can be read. Pure: of documents, without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.doctor.finding import Finding, note, of_error, ok, problem, warning
from understudy.documents.model import HEADROOM, LIMIT, Document
from understudy.errors import DocumentEmptied, DocumentTooLarge, DocumentUnreadable, JobFailed, UnderstudyError
from understudy.fencing.claim import NO_FORMER_LOCKS
from understudy.ha import checkpoints, components, ownership, requests, roots, submissions
from understudy.ha.job import ENTRY, RESTORE, Job, Status
from understudy.ha.moved import Moved
from understudy.ha.replicas import Replica, bound, entries_of

CHECK = "documents"
JOB = "job"

#: Seconds for which a request may be under way beyond its own time-out before that is strange.
_LONG = 120.0
_PATCH_OUT = "Take the entry out (kubectl patch), or restore it"


@dataclass(frozen=True, slots=True)
class Read:
    """One document as it was read: ``None`` where there is none; ``error`` where it could not be read."""

    name: str
    document: Document | None = None
    error: UnderstudyError | None = None

    @property
    def unread(self) -> bool:
        return self.error is not None


def job_of(read: Read, job: str) -> Job | None:
    """``job`` as its document has it; ``None`` where that is missing, foreign or damaged: ``findings_of_job_document`` says which."""
    document = read.document
    if document is None or document.buried or ENTRY not in document.entries:
        return None
    try:
        found = Job.of(document)
    except UnderstudyError:
        return None
    return found if found.job == job else None


def bound_job(read: Read) -> tuple[str, bool] | None:
    """The job that the cluster id is bound to, and whether it has ever been led; ``None`` where that is not told or cannot be read."""
    try:
        return bound(read.document)
    except UnderstudyError:
        return None


def former_locks(read: Read) -> Mapping[str, int]:
    """Kinds of lock from which the job was moved, each with the highest epoch it granted; none where that cannot be read."""
    try:
        moved = Moved.of(read.document)
    except DocumentUnreadable:
        return NO_FORMER_LOCKS
    return NO_FORMER_LOCKS if moved is None else moved.former


# The job's document


def findings_of_job_document(read: Read, job: str, *, begun: bool) -> list[Finding]:
    """``begun``: the job is known to have been led."""
    if read.error is not None:
        return [of_error(CHECK, read.error)]
    document = read.document
    try:
        ownership.refuse_foreign(document, ENTRY)
        ownership.refuse_removed(document)
    except UnderstudyError as error:
        return [of_error(CHECK, error)]
    if document is None or document.buried or ENTRY not in document.entries:
        return [_no_record(read.name, begun=begun)]
    try:
        found = Job.of(document)
        ownership.refuse_other_job(read.name, found.job, job)
    except UnderstudyError as error:
        return [of_error(CHECK, error), *_size(document)]
    damaged = _damaged_entries(document, found)
    whole = [] if damaged else [ok(CHECK, f"{read.name}: each of its entries can be read")]
    return [*damaged, *whole, *_size(document)]


def _no_record(name: str, *, begun: bool) -> Finding:
    if begun:
        remedy = (
            f"A living leader notices that within a minute and goes on; otherwise: {RESTORE[0].lower()}{RESTORE[1:]}"
        )
        return problem(
            CHECK, f"{name}: the job's record is gone, and replicas have led it before", remedy, DocumentEmptied
        )
    return note(CHECK, f"{name}: no replica has ever led the job", "The log of its replicas says what they wait for")


def _damaged_entries(document: Document, job: Job) -> list[Finding]:
    """Entries without which a job can be led, so that a replica reads them as if they were not there."""
    found: list[Finding] = []

    def damaged(entry: str, meaning: str) -> None:
        found.append(warning(CHECK, f"{document.name}: entry {entry} cannot be read: {meaning}", _PATCH_OUT))

    try:
        roots.check(document.entries.get(roots.ENTRY))
    except DocumentUnreadable as error:
        damaged(roots.ENTRY, f"{error.what}; under which token each root was claimed is not known")
    if not job.checkpoints.readable:
        damaged(checkpoints.ENTRY, "a checkpoint that was restored from a copy is not noticed")
    if job.checkpoints.counter is None:
        damaged(checkpoints.COUNTER, "boundaries get no numbers any more")
    if not job.submissions.readable:
        damaged(submissions.ENTRY, "replicas that are started for what was submitted end, and nothing can be submitted")
    for entry, why in requests.unreadable(document):
        damaged(entry, f"{why.what}; {_INSTEAD[entry]}")
    for entry, why in components.unreadable(document):
        damaged(entry, f"{why.what}; where that component of the leader serves is not known until the next takeover")
    return found


_INSTEAD = {
    requests.REQUEST: "leaders refuse it",
    requests.ANSWER: "the request that it stands for counts as failed",
    requests.PAUSED: "the job counts as paused",
}


def _size(document: Document) -> list[Finding]:
    size = sum(len(key.encode()) + len(text.encode()) for key, text in document.entries.items())
    remedy = "Take out what others have put there; understudy keeps pointers only"
    if size > LIMIT - HEADROOM:
        text = f"{document.name}: {size} bytes, and no write of more than {LIMIT - HEADROOM} is made"
        return [problem(CHECK, text, remedy, DocumentTooLarge)]
    if size > LIMIT // 2:
        return [warning(CHECK, f"{document.name}: {size} bytes, more than half of the {LIMIT} that fit", remedy)]
    return []


# The job


def findings_of_job(job: Job, name: str, now: float) -> list[Finding]:
    """``now`` in seconds since 1970: the age of a request is told to people, and decides nothing but how loudly."""
    found = [_status(job, name)]
    if job.failures and not job.status.terminal:
        text = f"{name}: it has failed {len(job.failures)} times lately, at last: {job.reason or 'without a reason'}"
        found.append(warning(JOB, text, "Fix the cause: after more than --restart-attempts it has FAILED"))
    if (pause := job.requests.paused) is not None:
        by = f" by {pause.by}" if pause.by else ""
        found.append(warning(JOB, f"{name}: paused{by}: no standby takes over", "understudy unpause ends that"))
    if (asked := job.requests.under_way) is not None:
        age = max(0.0, now - asked.at)
        text = f"{name}: request {asked.action or 'that cannot be read'} ({asked.id}) is under way"
        if asked.at and age > asked.timeout + _LONG:
            text = f"{text}, asked for {age:.0f} s ago by the requester's clock"
            found.append(
                warning(JOB, text, "A leader takes it up; understudy cancel or understudy resume overrides it")
            )
        else:
            found.append(note(JOB, text))
    return found


def _status(job: Job, name: str) -> Finding:
    try:
        job.understood(name)
    except DocumentUnreadable as error:
        return of_error(JOB, error)
    match job.status:
        case Status.FAILED:
            what = f"{name}: FAILED: {job.reason or 'without a reason'}"
            return problem(JOB, what, "Fix the cause, then understudy resume lets it run again", JobFailed)
        case Status.SUSPENDED:
            return note(JOB, f"{name}: SUSPENDED", "understudy resume lets it go on")
        case Status.DRAINING:
            return note(JOB, f"{name}: DRAINING: each leader continues the drain until the job has FINISHED")
        case Status.FINISHED | Status.CANCELED:
            return note(JOB, f"{name}: {job.status}", "A new run begins with understudy run --run-id and a new id")
        case Status.RUNNING if job.never_led:
            return note(JOB, f"{name}: no replica has led it yet", "Start the job with understudy run")
        case status:
            return ok(JOB, f"{name}: {status}, under token {job.token}")


# The replicas' document


def findings_of_replicas_document(read: Read) -> list[Finding]:
    if read.error is not None:
        return [of_error(CHECK, read.error)]
    document = read.document
    try:
        ownership.refuse_foreign(document, ownership.CLUSTER)
        known = bound(document)
        if (moved := Moved.of(document)) is not None:
            moved.refuse_unless_here(read.name)
        ownership.refuse_removed(document)
    except UnderstudyError as error:
        return [of_error(CHECK, error)]
    if document is None or known is None:
        if entries_of(document):
            text = f"{read.name}: which job the cluster id belongs to is gone"
            return [problem(CHECK, text, RESTORE, DocumentEmptied)]
        return [note(CHECK, f"{read.name}: no replica has ever run", "Start the job with understudy run")]
    damaged = [
        found for holder, text in entries_of(document).items() if (found := _damaged_replica(read.name, holder, text))
    ]
    whole = [] if damaged else [ok(CHECK, f"{read.name}: each of its entries can be read")]
    return [*damaged, *whole, *_size(document)]


def _damaged_replica(name: str, holder: str, text: str) -> Finding | None:
    try:
        Replica.decode(text)
    except DocumentUnreadable as error:
        what = f"{name}: what replica {holder} says of itself cannot be read: {error.what}"
        return warning(CHECK, what, "It is left out; that replica writes it again with its next news")
    return None
