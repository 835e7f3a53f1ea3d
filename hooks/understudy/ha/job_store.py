"""One job's document in its store: read as a whole, written only under a token and by compare-and-set."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from understudy.documents.model import Conflict, DocumentStore, Unknown, Written
from understudy.documents.nonce import unique
from understudy.documents.settle import settle
from understudy.errors import DocumentEmptied, DocumentError, DocumentTooLarge, LeadershipLost, RequestRefused
from understudy.fencing.claim import is_new
from understudy.ha import ownership, request_changes
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.generation import Generation
from understudy.ha.job import ENTRY, RESTORE, Job, Status, content, stored_record
from understudy.ha.request_changes import REMEDIES
from understudy.ha.requests import Action, Pause, Request, Result
from understudy.ha.runs import SUPERSEDED, Begins, Joins, Over, Runs, UnderWay, named
from understudy.ha.savepoint_changes import saved_before
from understudy.protocol.token import HIGHEST, NONE, Token
from understudy.redaction import presentable

#: Others write this document too (an outgoing leader); so many lost races in a row are no race any more.
_TRIES = 16
_LAST_ATTEMPT = (1 << 32) - 1

#: Asked for the highest epoch known outside the job's document; 0 says that no replica has ever led this job.
MinEpoch = Callable[[], Awaitable[int]]


class JobStore:
    """One job's document. Every write first checks the token that is there: a writer with a lower token has lost."""

    def __init__(
        self, store: DocumentStore, name: str, job: str, script: str, unique: Callable[[], str] = unique
    ) -> None:
        self._store = store
        self._unique = unique
        self.name = name
        self.job = job
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
        min_epoch: MinEpoch,
        generation: Generation,
        above: Token = NONE,
        *,
        came_up: bool = True,
        run: str = "",
        now: float = 0.0,
        also: Callable[[Job], Job] = lambda job: job,
    ) -> Job:
        """Claim the job for the next driver of ``epoch``: one attempt above every earlier one, and above ``above``.

        ``above`` is the last token the caller had: a document that was restored from a backup may have forgotten it.
        ``came_up``: the caller's script has been seen to start. If not, its generation is noted as the one that led only by
        ``led``, once it has: code that does not start must not keep the code before it from leading.

        Raises ``LeadershipLost``, and ``Superseded`` when a newer generation has led.

        ``run`` is what the caller was started for, at ``now`` (s since 1970). A job whose run has ended stays as it is: the caller
        asks ``over_for``. Another run begins with its failures forgotten. One that was to be canceled while it was DRAINING is CANCELED by this
        write, and the next call begins ``run``: the result of the one comes before the other. ``min_epoch`` is asked for a missing document, which is
        a new job only if that is 0; otherwise ``DocumentEmptied`` is raised, because there was a job and starting over would
        repeat it; and for one that no replica has led. A job that is SUSPENDED stays as it is for every run. ``also``: what else the same write changes.
        """

        def next_attempt(job: Job) -> Job:
            part = job.part_of(run)
            # guard: ended-job-stays-ended
            if isinstance(part, Over):
                return job
            # guard: suspended-job-stays-suspended
            if job.kept_from(run):
                return job
            generation.check(job.generation)
            # Before the first claim nothing but the lock knows of a grant, and it was deleted then: two replicas have the same epoch.
            if job.token.epoch == epoch and job.holder not in {"", holder}:
                raise LeadershipLost(f"epoch {epoch} was granted to {job.holder}, too")
            last = max(job.token, above)
            # guard: attempt-per-start
            token = Token(epoch, last.attempt + 1 if last.epoch == epoch else 1)
            leads = generation if came_up or job.token == NONE else job.generation
            led = replace(job, token=token, holder=holder, script=self._script, generation=leads)
            led = also(replace(led, requests=job.requests.handed_over(holder, job.holder, now)))
            match part:
                case Joins() if job.token == NONE:
                    return replace(led, runs=Runs(run, now, int(token)))
                case Joins():
                    return replace(led, runs=named(job.runs, run))
                case UnderWay() if job.status is Status.DRAINING:
                    return _canceled(led, now)
                case Begins() | UnderWay():
                    return _next_run(led, run, now)

        # Our own attempts of this very epoch are our predecessors; a higher epoch has deposed us.
        return await self._update(Token(epoch, _LAST_ATTEMPT), next_attempt, min_epoch)

    async def led(self, token: Token, generation: Generation) -> Job:
        """Note that the script of ``generation`` has come up under ``token``: older generations never lead again."""
        return await self._update(token, lambda job: replace(job, generation=generation))

    async def serving(self, token: Token, now: float, found: Collection[Checkpoint] = ()) -> Job:
        return await self._update(token, lambda job: replace(job.noted(found), serving=token, committed_at=now))

    async def committed(self, token: Token, now: float, found: Collection[Checkpoint] = ()) -> Job:
        return await self._update(token, lambda job: replace(job.noted(found), committed_at=now))

    async def claims(self, token: Token, roots: tuple[str, ...]) -> Job:
        """Note that ``token`` holds ``roots``, all of them; those of the token before it stay, and older ones drop out."""

        def with_roots(job: Job) -> Job:
            claimed = job.claimed.held(token, roots)
            return replace(job, claimed=claimed, roots=claimed.all)

        return await self._update(token, with_roots)

    async def failed_once(self, token: Token, now: float, window: float, reason: str) -> Job:
        """Count the failure of ``token``, once, with ``window`` as in ``Job.with_failure``.

        Where a reason does not fit into the document any more, the failure is counted without it.
        """
        try:
            return await self._update(token, lambda job: job.with_failure(token, now, window, presentable(reason)))
        except DocumentTooLarge:
            return await self._update(token, lambda job: job.with_failure(token, now, window, ""))

    async def still_led(self, token: Token) -> Job:
        """The job as it is. Raises ``LeadershipLost`` where it is run under another token than this one."""
        return await self._update(token, lambda job: job)

    async def ran_well(self, token: Token) -> Job:
        """Forget failures: the driver of ``token`` has run for the restart window."""
        return await self._update(token, lambda job: job.without_failures(token))

    async def end(
        self, token: Token, status: Status, reason: str, now: float = 0.0, found: Collection[Checkpoint] = ()
    ) -> Job:
        """The job as it is then, ended at ``now`` (s since 1970).

        RUNNING if the job was resumed before we knew whether our FAILED had landed.
        """

        def ended(job: Job, why: str) -> Job:
            # a leader counts a failure before it ends the job as FAILED; only `resume` forgets failures
            resumed = status is Status.FAILED and not job.failures
            if resumed or job.status is status:  # or the answer to an earlier try was lost
                return job
            asked = job.requests.under_way
            asked_for = {Status.CANCELED: Action.CANCEL}
            if job.status is Status.DRAINING:
                asked_for[Status.FINISHED] = Action.DRAIN
            undone = Result.FAILED if job.status is Status.DRAINING else Result.REFUSED
            done = asked is not None and asked.action == asked_for.get(status)
            text = f"the job is {status}{saved_before(job) if done else ''}"
            requests = job.requests.answered(Result.DONE if done else undone, text, now)
            over = replace(job.runs, ended=now)
            known = job.noted(found).checkpoints
            # one that has FAILED is drained on, once it is resumed
            known = known if status is Status.FAILED else known.drain_ends()
            return replace(job, status=status, reason=why, runs=over, requests=requests, checkpoints=known)

        try:
            return await self._update(token, lambda job: ended(job, presentable(reason)))
        except DocumentTooLarge:
            return await self._update(token, lambda job: ended(job, ""))

    async def suspend(
        self,
        token: Token,
        request: str,
        now: float,
        found: Collection[Checkpoint] = (),
        *,
        between_batches: bool = True,
    ) -> Job:
        """SUSPENDED, and ``request`` answered, in one write. Unchanged where the request was withdrawn meanwhile. A job that is DRAINING
        stays so, and ``request`` is refused.

        ``between_batches``: it is known that no batch was left in the middle, so this is a boundary, which gets a number.
        """

        def suspended(job: Job) -> Job:
            # guard: withdrawn-request-changes-nothing
            if not job.requests.is_under_way(request):
                return job
            if job.status is Status.DRAINING:  # what it has drained must not be gone on from
                refused = job.requests.answered(Result.REFUSED, "the job is DRAINING", now)
                return replace(job, requests=refused)
            text = "a batch that was left in the middle is run again when it is resumed"
            if between_batches:
                job = job.noted(found)
                job = replace(job, checkpoints=job.checkpoints.numbered())
                number = job.checkpoints.counter
                text = "between two batches" + ("" if number is None else f": boundary {number}")
            requests = job.requests.answered(Result.DONE, f"the job is SUSPENDED; {text}", now)
            return replace(job, status=Status.SUSPENDED, requests=requests)

        return await self._update(token, suspended)

    async def drain(
        self, token: Token, request: str, roots: Collection[str], found: Collection[Checkpoint] = ()
    ) -> Job:
        """DRAINING: from here on ``roots`` are only drained, whichever replica leads. Unchanged where the request was withdrawn meanwhile.

        The boundary at which the job stands still gets a number.
        """

        def draining(job: Job) -> Job:
            # guard: withdrawn-drain-changes-nothing
            if job.status is Status.DRAINING or not job.requests.is_under_way(request):
                return job
            marked = job.noted(found).checkpoints.drain_begins(roots).numbered()
            return replace(job, status=Status.DRAINING, checkpoints=marked)

        return await self._update(token, draining)

    async def answer(self, token: Token, request: str, result: Result, text: str, now: float) -> Job:
        """Say what has come of ``request``. Unchanged where it is answered already."""

        def answered(job: Job) -> Job:
            if not job.requests.is_under_way(request):
                return job
            return replace(job, requests=job.requests.answered(result, presentable(text), now))

        return await self._update(token, answered)

    async def change(self, token: Token, change: Callable[[Job], Job], min_epoch: MinEpoch | None = None) -> Job:
        """Write what ``change`` makes of the job: what ``ha.savepoint_changes`` and ``ha.artifacts`` know. Raises what ``change`` does.

        ``min_epoch`` as in ``begin_attempt``; without it a missing job is not begun.
        """
        return await self._update(token, change, min_epoch)

    async def ask(self, request: Request) -> Job:
        """Put ``request`` into the document; the job as it is then. Not a leader's call.

        To cancel a job overrides any other request. A job that is SUSPENDED, or that no replica has led, has no leader, so it is canceled
        here. Of a job that is DRAINING nothing else is asked than to end.

        Raises ``RequestRefused``, and nothing is changed: another request is under way, or the job's status rules it out.
        """
        return await self._update(HIGHEST, request_changes.ask(request))

    async def pause(self, by: str, now: float) -> Job:
        """Keep standbys from taking over until ``unpause``. The job as it was found. Not a leader's call."""
        return await self._set_pause(Pause(by, now))

    async def unpause(self) -> Job:
        """The job as it was found. Not a leader's call."""
        return await self._set_pause(None)

    async def _set_pause(self, wanted: Pause | None) -> Job:
        found: list[Job] = []

        def changed(job: Job) -> Job:
            found.append(job)
            if wanted is not None and job.status.terminal:
                raise RequestRefused(f"job {job.job} is {job.status}", where="pause", remedy=REMEDIES[job.status])
            if (job.requests.paused is None) == (wanted is None):
                return job
            return replace(job, requests=replace(job.requests, paused=wanted))

        await self._update(HIGHEST, changed)
        return found[-1]

    async def begin_suspended(self) -> Job:
        """SUSPENDED before the first leader: replicas that are started stay idle until it is resumed. The job as it is then.

        A job that has had a leader stays as it is. Not a leader's call. The caller knows that no leader has ever been there, for the
        record of a job that is gone would be begun again.
        """
        return await self._update(HIGHEST, request_changes.begin_suspended, _never_granted)

    async def recall(self, ended: Job) -> Job:
        """Write ``ended`` down again, which has ended for good, where its record is gone and all else with it. The job as it is then."""

        def recalled(job: Job) -> Job:
            return replace(ended, submissions=job.submissions) if job.token == NONE else job

        return await self._update(HIGHEST, recalled, _never_granted)

    async def resume(self, accepted: Collection[str] = (), now: float = 0.0, *, only_suspensions: bool = False) -> Job:
        """Let a job that has FAILED or is SUSPENDED run again, under higher tokens, with its failures forgotten.

        Roots that are ``accepted`` are forgotten: the next leader claims as new what stands there now, if anything does. A request
        under way is withdrawn at ``now`` (s since 1970), but not one to cancel the job, and none that is DRAINING; with ``only_suspensions``
        only one to suspend it. A job that has FAILED, or was suspended, while it was being drained is DRAINING again.

        Returns the job as it was found. Not a leader's call: such a job has no leader. Raises ``DocumentEmptied`` where a job's record
        is gone.
        """
        found: list[Job] = []
        resumed = request_changes.resume(accepted, now, only_suspensions=only_suspensions)

        def running(job: Job) -> Job:
            found.append(job)
            return resumed(job)

        await self._update(HIGHEST, running)
        return found[-1]

    async def _update(self, token: Token, change: Callable[[Job], Job], min_epoch: MinEpoch | None = None) -> Job:
        """Read, check the token, write by compare-and-set; again while others write, until it is certain what stands there."""
        for _ in range(_TRIES):
            document = await self._store.read(self.name)
            stored: dict[str, object] = {}
            ownership.refuse_removed(document)
            ownership.refuse_foreign(document, ENTRY)
            if document is None or ENTRY not in document.entries:
                if min_epoch is None or not is_new(self.name, document, await min_epoch()):
                    raise DocumentEmptied("the job's record is gone", where=self.name, remedy=RESTORE)
                job = Job(self.job, self._script, Status.RUNNING, Token(0, 0), Token(0, 0), "")
            else:
                job = self._checked(Job.of(document)).understood(self.name)
                stored = stored_record(document)
                # begun by a submission or a declared state, where the record of the job that was led was lost
                if job.token == NONE and min_epoch is not None and await min_epoch():
                    raise DocumentEmptied("the record of the job that was led is gone", where=self.name, remedy=RESTORE)
            # guard: lower-token-writes-no-job
            if job.token > token:
                raise LeadershipLost(f"{self.name} is run under token {job.token}, above ours, {token}")
            wanted = change(job)
            if wanted == job:
                return job
            sent = content(document, stored, job, wanted, self._unique())
            outcome = await (
                self._store.create(self.name, sent) if document is None else self._store.replace(document, sent)
            )
            match await settle(self._store, self.name, document, sent, outcome, nonce_key=ENTRY):
                case Written():
                    return wanted
                case Conflict():
                    continue
                case Unknown(cause):
                    raise DocumentError(f"it is unknown whether it was written: {cause}", where=self.name)
        raise DocumentError(
            "it changed every time", where=self.name, remedy="Who else writes this document all the time?"
        )

    def _checked(self, job: Job) -> Job:
        ownership.refuse_other_job(self.name, job.job, self.job)
        return job


def _canceled(job: Job, now: float) -> Job:
    """A job that is DRAINING makes room for another run only where it was to be canceled, and none of its own replicas was left to do that."""
    return replace(
        job,
        status=Status.CANCELED,
        reason="canceled, when no replica of the run was left",
        runs=replace(job.runs, ended=now),
        requests=job.requests.answered(Result.DONE, f"the run has ended as {Status.CANCELED.value}", now),
        checkpoints=job.checkpoints.drain_ends(),
    )


def _next_run(job: Job, run: str, now: float) -> Job:
    """``run`` begins, under the token that ``job`` has. What was asked of the run before is nothing that this one was asked."""
    ended = job.status.value if job.status.terminal else SUPERSEDED
    return replace(
        job,
        status=Status.RUNNING,
        failures=(),
        reason="",
        runs=job.runs.next(run, ended, int(job.token), now),
        requests=job.requests.answered(Result.REFUSED, f"the run has ended as {ended}", now),
        checkpoints=job.checkpoints.drain_ends(),
    )


async def _never_granted() -> int:
    return 0
