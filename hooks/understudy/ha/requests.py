"""What a running job is asked to do, and what came of it: entries ``request``, ``answer`` and ``paused`` of the job's document.

Anyone who may write the document may ask. One request is under way at a time: it is until an answer names its id. The leader carries it
out; a leader that takes over from one that died in between begins it again. An answer stays until the next request, so that the
requester can read it.

To pause is no request: no leader has to do anything. While ``paused`` stands there, standbys do not take over.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, replace
from typing import Self, TypeVar

from understudy.documents import codec
from understudy.documents.model import Document
from understudy.errors import DocumentUnreadable
from understudy.protocol import typed

REQUEST = "request"
ANSWER = "answer"
PAUSED = "paused"
_VERSION = 1

T = TypeVar("T")


class Action(enum.StrEnum):
    """What this release can do."""

    CANCEL = "cancel"
    SUSPEND = "suspend"
    DRAIN = "drain"
    SAVEPOINT = "savepoint"
    HAND_OVER = "hand-over"


class Result(enum.StrEnum):
    """``refused``: nothing was changed. ``failed``: it was tried, and the job runs on. ``withdrawn``: by a later request."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Request:
    """``action`` may be one of a newer release. ``at`` is in seconds since 1970, ``timeout`` in seconds from when a leader takes it up.

    ``by`` says who asked, for people. ``to``: the holder of the replica to hand over to; empty for any. ``warm``: standbys keep their
    drivers while the job is suspended. ``then``: what follows a savepoint: ``suspend``, or nothing. ``savepoint``: one is taken before a drain, where
    there is a place for it.
    """

    id: str
    action: str
    by: str = ""
    at: float = 0.0
    timeout: float = 0.0
    to: str = ""
    warm: bool = False
    then: str = ""
    savepoint: bool = False

    @property
    def suspends(self) -> bool:
        """Whether the job is SUSPENDED once it is carried out."""
        return Action.SUSPEND in {self.action, self.then}


@dataclass(frozen=True, slots=True)
class Answer:
    """``request``: the id of the one that was asked. ``at`` in seconds since 1970. ``text``: what came of it, in a sentence."""

    request: str
    result: str
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    """``by`` says who paused the job, for people; ``at`` in seconds since 1970."""

    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Requests:
    """The last request, the last answer, and the pause that lasts."""

    request: Request | None = None
    answer: Answer | None = None
    paused: Pause | None = None

    @property
    def under_way(self) -> Request | None:
        """The request that has no answer yet."""
        answered = self.answer is not None and self.request is not None and self.answer.request == self.request.id
        return None if answered else self.request

    @property
    def cancels(self) -> bool:
        """Whether the request under way is to cancel the job."""
        return self.under_way is not None and self.under_way.action == Action.CANCEL

    def answered(self, result: Result, text: str, now: float) -> Self:
        """The request under way has come to its end; unchanged where there is none."""
        request = self.under_way
        return self if request is None else replace(self, answer=Answer(request.id, result.value, now, text))

    def withdrawn(self, now: float, *, only_suspensions: bool = False) -> Self:
        """Without the request under way; one to cancel the job stays, and with ``only_suspensions`` each that leaves it RUNNING."""
        request = self.under_way
        if request is None or request.action == Action.CANCEL or (only_suspensions and not request.suspends):
            return self
        return self.answered(Result.WITHDRAWN, "withdrawn by resume", now)

    def is_under_way(self, request: str) -> bool:
        return self.under_way is not None and self.under_way.id == request

    def handed_over(self, holder: str, former: str, now: float) -> Self:
        """As they are once ``holder`` leads after ``former``: another leader answers the request to hand over to it."""
        request = self.under_way
        if request is None or request.action != Action.HAND_OVER or holder == former:
            return self
        if request.to in {"", holder}:
            return self.answered(Result.DONE, f"{holder} leads", now)
        return self.answered(Result.FAILED, f"{holder} was faster, and leads", now)

    def keeps_from_leading(self, holder: str, former: str) -> bool:
        """Whether replica ``holder`` must not take the lock that ``former`` held last: the job is paused.

        Not where it is being handed over to ``holder``, or comes back from a handover, and not to suspend or to cancel the job, for which
        no gate is opened.
        """
        if self.paused is None:
            return False
        match self.under_way:
            case Request(action=Action.HAND_OVER, to=to):
                return bool(to) and holder not in {to, former}
            case Request(action=Action.SUSPEND | Action.CANCEL):
                return False
            case _:
                return True

    @classmethod
    def of(cls, document: Document) -> Self:
        """What stands in ``document``. A request that cannot be read is one without an action, which leaders refuse: it must not
        keep them from leading.
        """
        entries = document.entries
        request = _request(entries.get(REQUEST))
        return cls(request, _answer(entries.get(ANSWER), request), _pause(entries.get(PAUSED)))

    def entries(self, before: Requests) -> dict[str, str | None]:
        """What to write where ``before`` stands. An entry that stays as it is keeps the fields of a newer release."""
        changes = {
            REQUEST: (before.request, self.request),
            ANSWER: (before.answer, self.answer),
            PAUSED: (before.paused, self.paused),
        }
        return {
            name: None if now is None else codec.encode(name, _VERSION, asdict(now))
            for name, (was, now) in changes.items()
            if was != now
        }


def unreadable(document: Document) -> list[tuple[str, DocumentUnreadable]]:
    """Entries that are there and cannot be read, each with the reason; ``Requests.of`` says what they are taken for."""
    found = []
    for name, kind in ((REQUEST, Request), (ANSWER, Answer), (PAUSED, Pause)):
        if (text := document.entries.get(name)) is not None:
            try:
                _read(kind, name, text)
            except DocumentUnreadable as error:
                found.append((name, error))
    return found


def _request(text: str | None) -> Request | None:
    if text is None:
        return None
    try:
        return _read(Request, REQUEST, text)
    except DocumentUnreadable:
        return Request(f"unreadable-{codec.digest(text.encode())}", "")


def _answer(text: str | None, request: Request | None) -> Answer | None:
    """One that cannot be read answers the request that stands there: what may have been done is not done twice."""
    if text is None:
        return None
    try:
        return _read(Answer, ANSWER, text)
    except DocumentUnreadable:
        return Answer("" if request is None else request.id, Result.FAILED, 0.0, "the answer cannot be read")


def _pause(text: str | None) -> Pause | None:
    """One that cannot be read is a pause all the same."""
    if text is None:
        return None
    try:
        return _read(Pause, PAUSED, text)
    except DocumentUnreadable:
        return Pause("", 0.0)


def _read(kind: type[T], name: str, text: str) -> T:
    """Raises ``DocumentUnreadable``. Fields of a newer release are left out."""
    try:
        return typed.build_known(kind, codec.decode(name, text)[1])
    except ValueError as error:
        raise DocumentUnreadable(str(error), where=name) from None
