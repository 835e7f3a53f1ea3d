"""Runs: the lives of one job, each from its start to a terminal status, and what a replica may do about them.

A run that has ended never runs again, even if a replica is started for it. Another id begins a new run, under higher
tokens and from the same checkpoints. The entry ``run`` of the job's document names the run that the entry ``job`` is
about; replicas that know no runs keep it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from understudy.documents import codec
from understudy.documents.model import Document
from understudy.errors import DocumentUnreadable, SettingsError

ENTRY = "run"
_KIND = "run"
_VERSION = 1

#: So many earlier runs are remembered; a start for an older one would begin it as a new run.
REMEMBERED = 32

#: A UID, a date, or what a scheduler calls its runs; no slash, for it becomes part of names.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@=~-]{0,127}")

#: The status of a run that was neither FINISHED nor FAILED when another one began: all of its replicas had gone.
SUPERSEDED = "SUPERSEDED"


def check_run_id(value: str) -> str:
    """Raises ``SettingsError``. Empty: no id was given."""
    if value and not _ID.fullmatch(value):
        raise SettingsError(
            f"{value!r} is no name of a run",
            where="--run-id",
            remedy="Use 1 to 128 letters, digits and . _ : + @ = ~ -, beginning with a letter or digit",
        )
    return value


@dataclass(frozen=True, slots=True)
class PastRun:
    """``status`` is a job's terminal one, or ``SUPERSEDED``; ``ended`` in seconds since 1970, 0 where it is not known."""

    run: str
    status: str
    ended: float


@dataclass(frozen=True, slots=True)
class Runs:
    """``run`` is the id of the one under way, or the last; empty if none was given. Times in seconds since 1970, 0 for not known.

    ``first`` is the token it began under, as one integer; ``past`` the earlier ones, oldest first.
    """

    run: str = ""
    began: float = 0.0
    first: int = 0
    ended: float = 0.0
    past: tuple[PastRun, ...] = ()

    @classmethod
    def of(cls, document: Document) -> Runs:
        """Raises ``DocumentUnreadable``: what cannot be understood is not taken for a job without runs."""
        if ENTRY not in document.entries:
            return cls()
        body = _stored(document)
        try:
            return _from_body(body)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DocumentUnreadable(
                f"the record of the job's runs lacks a field, or has one amiss: {error!r}",
                where=document.name,
                remedy="Restore the document, or choose another cluster id",
                revision=document.revision,
            ) from error

    def encode(self, instead_of: Document | None = None) -> str:
        """The entry that takes the place of the one in ``instead_of``, whose fields of a newer release stay."""
        body = {
            **({} if instead_of is None else _stored(instead_of)),
            "run": self.run,
            "began": self.began,
            "first": self.first,
            "ended": self.ended,
            "past": [{"run": each.run, "status": each.status, "ended": each.ended} for each in self.past],
        }
        return codec.encode(_KIND, _VERSION, body)

    def earlier(self, run: str) -> PastRun | None:
        """What became of ``run``, if it was before the present one."""
        return next((each for each in self.past if each.run == run), None)

    def next(self, run: str, status: str, first: int, now: float) -> Runs:
        """``run`` begins; the present one has ended with ``status``."""
        past = (*self.past, PastRun(self.run, status, self.ended or now))
        return Runs(run, now, first, 0.0, past[-REMEMBERED:])


def _stored(document: Document) -> dict[str, object]:
    """The record as it was written; empty where there is none."""
    text = document.entries.get(ENTRY)
    return {} if text is None else codec.decode(_KIND, text, where=document.name, revision=document.revision)[1]


def _from_body(body: Mapping[str, object]) -> Runs:
    past = body["past"]
    if not isinstance(past, list):
        raise TypeError(past)
    return Runs(
        run=str(body["run"]),
        began=_number(body["began"]),
        first=int(_number(body["first"])),
        ended=_number(body["ended"]),
        past=tuple(PastRun(str(each["run"]), str(each["status"]), _number(each["ended"])) for each in past),
    )


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return value


@dataclass(frozen=True, slots=True)
class Joins:
    """The run under way is ours: it has our id, or one of the two has none."""


@dataclass(frozen=True, slots=True)
class Begins:
    """The last run has ended, and ours is another one."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Another run has not ended. It goes on while its leader lives; a replica of ours that is granted the lock supersedes it."""

    run: str


@dataclass(frozen=True, slots=True)
class Over:
    """Our run has ended: nothing of it runs again."""

    past: PastRun


Part = Joins | Begins | UnderWay | Over


def part_of(run: str, runs: Runs, status: str, *, terminal: bool) -> Part:
    """What a replica that was started for ``run`` may do with a job of this ``status``. Without an id it serves any run under way."""
    # guard: ended-run-is-remembered
    if run and run != runs.run and (past := runs.earlier(run)) is not None:
        return Over(past)
    same = run in ("", runs.run)
    if terminal:
        return Over(PastRun(runs.run, status, runs.ended)) if same else Begins()
    return Joins() if same or not runs.run else UnderWay(runs.run)


def named(runs: Runs, run: str) -> Runs:
    """A run that began without an id takes that of the first leader that has one."""
    return replace(runs, run=run) if run and not runs.run else runs
