"""The job's document: what a job is, who runs it, and how it ended. Written only under a token, by compare-and-set."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from understudy.documents import codec
from understudy.documents.model import Conflict, Content, Document, DocumentStore, Unknown, Written
from understudy.documents.nonce import unique
from understudy.documents.settle import settle
from understudy.errors import (
    DocumentEmptied,
    DocumentError,
    DocumentTooLarge,
    DocumentUnreadable,
    LeadershipLost,
)
from understudy.fencing.claim import is_new
from understudy.ha import ownership
from understudy.ha import roots as claimed_roots
from understudy.ha import runs as run_store
from understudy.ha.generation import Generation
from understudy.ha.roots import ClaimedRoots
from understudy.ha.runs import SUPERSEDED, Begins, Joins, Over, Part, Runs, UnderWay, named, part_of
from understudy.protocol.names import JOB_LABELS
from understudy.protocol.token import HIGHEST, NONE, Token
from understudy.redaction import presentable

ENTRY = ownership.JOB
_KIND = "job"
_VERSION = 1
#: Others write this document too (an outgoing leader); so many lost races in a row are no race any more.
_TRIES = 16
_LAST_ATTEMPT = (1 << 32) - 1
_RESTORE = "Restore the document, or choose another cluster id"

#: Asked for the highest epoch known outside the job's document; 0 says that nobody has ever led this job.
Floor = Callable[[], Awaitable[int]]


class Status(enum.StrEnum):
    """A newer release may write others. They are read as they stand, for people; see ``Job.understood``."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"

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
        return self in {Status.FINISHED, Status.FAILED}


@dataclass(frozen=True, slots=True)
class Job:
    """What stands in the document.

    ``token`` is the highest that ran or runs the job; ``serving`` the one that last reached a first commit. ``failures`` holds
    the times (seconds, wall clock, for people and for the reset window) of recent failed starts; ``roots`` what the job's newest
    two tokens have claimed, which ``claimed`` tells apart (an entry of its own in the document); ``generation`` is the newest
    that has led. ``runs`` stands in an entry of its own, too: older replicas drop fields they do not know.
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
    claimed: ClaimedRoots = field(default_factory=ClaimedRoots)
    runs: Runs = field(default_factory=Runs)

    def part_of(self, run: str) -> Part:
        """What a replica that was started for ``run`` may do."""
        return part_of(run, self.runs, self.status.value, terminal=self.status.terminal)

    def over_for(self, run: str) -> bool:
        return isinstance(self.part_of(run), Over)

    def understood(self, where: str) -> Job:
        """This job, for whoever is going to lead it or to change its document.

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
            "generation": asdict(self.generation),
        }

    @classmethod
    def of(cls, document: Document) -> Job:
        """Raises ``DocumentUnreadable`` for what cannot be understood and ``DocumentEmptied`` for a document without a job."""
        try:
            job = _from_body(_stored(document))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            reason = f"the job's record lacks a field, or has one amiss: {error!r}"
            raise DocumentUnreadable(
                reason, where=document.name, remedy=_RESTORE, revision=document.revision
            ) from error
        claimed = ClaimedRoots.of(document.entries.get(claimed_roots.ENTRY), job.roots, job.token)
        return replace(job, claimed=claimed, roots=claimed.all, runs=Runs.of(document))


def _stored(document: Document) -> dict[str, object]:
    """The record as it was written, fields of newer releases included."""
    text = document.entries.get(ENTRY)
    if text is None:
        raise DocumentEmptied("the job's record is gone", where=document.name, remedy=_RESTORE)
    return codec.decode(_KIND, text, where=document.name, revision=document.revision)[1]


def _content(document: Document | None, stored: Mapping[str, object], job: Job, wanted: Job, nonce: str) -> Content:
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
    )


def _generation(value: object) -> Generation:
    if not isinstance(value, dict):
        raise DocumentUnreadable(f"the job's generation is {value!r}", remedy=_RESTORE)
    return Generation(int(value["number"]), str(value["digest"]), str(value["workload"]))


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


class JobStore:
    """One job's document. Every write checks the token that is there first: a lower one has lost, whoever asks."""

    def __init__(
        self, store: DocumentStore, name: str, job: str, script: str, unique: Callable[[], str] = unique
    ) -> None:
        self._store = store
        self._unique = unique
        self.name = name
        self._job = job
        self._script = script

    async def read(self) -> Job | None:
        """The job as it stands, linearizable; ``None`` before its first grant."""
        document = await self._store.read(self.name)
        ownership.refuse_foreign(document, ENTRY)
        return None if document is None or document.buried else self._checked(Job.of(document))

    async def begin_attempt(
        self,
        epoch: int,
        holder: str,
        floor: Floor,
        generation: Generation,
        above: Token = NONE,
        *,
        came_up: bool = True,
        run: str = "",
        now: float = 0.0,
    ) -> Job:
        """Claim the job for the next driver of ``epoch``: one attempt above every earlier one, and above ``above``.

        ``above`` is the last token the caller had: a document that was restored from a backup may have forgotten it.
        ``came_up``: the caller's script has been seen to start. If not, its generation is noted as the one that led only by
        ``led``, once it has: code that does not start must not keep the code before it from leading.

        Raises ``LeadershipLost``, and ``Superseded`` when a newer generation has led.

        ``run`` is what the caller was started for, at ``now`` (s since 1970). A job whose run has ended stays as it is: the caller
        asks ``over_for``. Another run begins with its failures forgotten. ``floor`` is asked for a missing document, which is
        a new job only if that is 0; otherwise ``DocumentEmptied`` is raised, because there was a job and starting over would
        repeat it.
        """

        def next_attempt(job: Job) -> Job:
            part = job.part_of(run)
            # guard: ended-job-stays-ended
            if isinstance(part, Over):
                return job
            generation.check(job.generation)
            last = max(job.token, above)
            # guard: attempt-per-start
            token = Token(epoch, last.attempt + 1 if last.epoch == epoch else 1)
            leads = generation if came_up or job.token == NONE else job.generation
            led = replace(job, token=token, holder=holder, script=self._script, generation=leads)
            match part:
                case Joins() if job.token == NONE:
                    return replace(led, runs=Runs(run, now, int(token)))
                case Joins():
                    return replace(led, runs=named(job.runs, run))
                case Begins() | UnderWay():
                    ended = job.status.value if job.status.terminal else SUPERSEDED
                    runs = job.runs.next(run, ended, int(token), now)
                    return replace(led, status=Status.RUNNING, failures=(), reason="", runs=runs)

        # Any attempt of this very epoch is our own predecessor; only a higher epoch has deposed us.
        return await self._update(Token(epoch, _LAST_ATTEMPT), next_attempt, floor)

    async def led(self, token: Token, generation: Generation) -> Job:
        """Note that the script of ``generation`` has come up under ``token``: older generations never lead again."""
        return await self._update(token, lambda job: replace(job, generation=generation))

    async def serving(self, token: Token, now: float) -> Job:
        return await self._update(token, lambda job: replace(job, serving=token, committed_at=now))

    async def committed(self, token: Token, now: float) -> Job:
        return await self._update(token, lambda job: replace(job, committed_at=now))

    async def claims(self, token: Token, roots: tuple[str, ...]) -> Job:
        """Note that ``token`` holds ``roots``, all of them; those of the token before it stay, and older ones drop out."""

        def with_roots(job: Job) -> Job:
            claimed = job.claimed.held(token, roots)
            return replace(job, claimed=claimed, roots=claimed.all)

        return await self._update(token, with_roots)

    async def failed_once(self, token: Token, now: float, window: float, reason: str) -> Job:
        """Count one failure; those older than ``window`` seconds are forgotten.

        Where a reason does not fit into the document any more, the failure is counted without it.
        """

        def counted(job: Job, why: str) -> Job:
            return replace(job, failures=(*(at for at in job.failures if now - at < window), now), reason=why)

        try:
            return await self._update(token, lambda job: counted(job, presentable(reason)))
        except DocumentTooLarge:
            return await self._update(token, lambda job: counted(job, ""))

    async def end(self, token: Token, status: Status, reason: str, now: float = 0.0) -> Job:
        """The job as it is then, ended at ``now`` (s since 1970).

        RUNNING if somebody has resumed it while nobody knew whether our FAILED had landed.
        """

        def ended(job: Job, why: str) -> Job:
            # whoever ends a job as FAILED has counted a failure before; only `resume` forgets them
            resumed = status is Status.FAILED and not job.failures
            if resumed:
                return job
            return replace(job, status=status, reason=why, runs=replace(job.runs, ended=now))

        try:
            return await self._update(token, lambda job: ended(job, presentable(reason)))
        except DocumentTooLarge:
            return await self._update(token, lambda job: ended(job, ""))

    async def resume(self, accepted: Collection[str] = ()) -> Job:
        """Somebody has mended what made the job fail: it runs again, under higher tokens, its failures forgotten.

        Roots that are ``accepted`` are forgotten: whatever stands there now, or does not, the next leader claims as new.

        The job as it was found; one that has not FAILED stays as it is. Not a leader's call: nobody leads a job that has ended.
        Raises ``DocumentEmptied`` where a job's record is gone.
        """
        found: list[Job] = []

        def running(job: Job) -> Job:
            found.append(job)
            claimed = job.claimed.without(accepted)
            kept = replace(job, claimed=claimed, roots=claimed.all) if accepted else job
            if job.status is not Status.FAILED:
                return kept
            return replace(kept, status=Status.RUNNING, failures=(), runs=replace(job.runs, ended=0.0))

        await self._update(HIGHEST, running)
        return found[-1]

    async def _update(self, token: Token, change: Callable[[Job], Job], floor: Floor | None = None) -> Job:
        """Read, check the token, write by compare-and-set; again while others write, until it is certain what stands there."""
        for _ in range(_TRIES):
            document = await self._store.read(self.name)
            stored: dict[str, object] = {}
            ownership.refuse_foreign(document, ENTRY)
            if document is None or ENTRY not in document.entries:
                if floor is None or not is_new(self.name, document, await floor()):
                    raise DocumentEmptied("the job's record is gone", where=self.name, remedy=_RESTORE)
                job = Job(self._job, self._script, Status.RUNNING, Token(0, 0), Token(0, 0), "")
            else:
                job = self._checked(Job.of(document)).understood(self.name)
                stored = _stored(document)
            # guard: lower-token-writes-no-job
            if job.token > token:
                raise LeadershipLost(f"{self.name} is run under token {job.token}, above ours, {token}")
            wanted = change(job)
            if wanted == job:
                return job
            sent = _content(document, stored, job, wanted, self._unique())
            outcome = await (
                self._store.create(self.name, sent) if document is None else self._store.replace(document, sent)
            )
            match await settle(self._store, self.name, document, sent, outcome, nonce_key=ENTRY):
                case Written():
                    return wanted
                case Conflict():
                    continue
                case Unknown(cause):
                    raise DocumentError(f"nobody knows whether it was written: {cause}", where=self.name)
        raise DocumentError(
            "it changed every time", where=self.name, remedy="Who else writes this document all the time?"
        )

    def _checked(self, job: Job) -> Job:
        ownership.refuse_other_job(self.name, job.job, self._job)
        return job
