"""One thing that was looked at, how it is, and what can be done about it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from understudy.errors import UnderstudyError


class Severity(enum.StrEnum):
    """Worst first. ``PROBLEM``: the job does not run, or the next takeover would fail. ``WARNING``: it runs on, and a failure would cost
    more than it has to. ``NOTE``: worth knowing; also what could not be looked at from here.
    """

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


_GRAVITY = {each: number for number, each in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """``check``: what was looked at, in a word. ``text``: where, and what is found there. ``exit_code`` is 0 but for a problem, and then what
    ``understudy run`` or ``status`` would end with.
    """

    check: str
    severity: Severity
    text: str
    remedy: str = ""
    exit_code: int = 0

    def __str__(self) -> str:
        return f"{self.text}. {self.remedy}" if self.remedy else self.text


def ok(check: str, text: str) -> Finding:
    return Finding(check, Severity.OK, text)


def note(check: str, text: str, remedy: str = "") -> Finding:
    return Finding(check, Severity.NOTE, text, remedy)


def warning(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, Severity.WARNING, text, remedy)


def problem(check: str, text: str, remedy: str, kind: type[UnderstudyError]) -> Finding:
    """``kind``: the error of a command that meets it."""
    return Finding(check, Severity.PROBLEM, text, remedy, kind.exit_code)


def of_error(check: str, error: UnderstudyError, severity: Severity = Severity.PROBLEM) -> Finding:
    """``error`` as a finding, with its place and its remedy."""
    text = f"{error.where}: {error.what}" if error.where else error.what
    return Finding(check, severity, text, error.remedy, error.exit_code if severity is Severity.PROBLEM else 0)


def by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first; among equals in the order in which they were found."""
    return sorted(findings, key=lambda each: _GRAVITY[each.severity])


def exit_code(findings: Iterable[Finding]) -> int:
    """That of the worst finding: the first problem; 0 where there is none."""
    return next((each.exit_code for each in by_gravity(findings)), 0)
