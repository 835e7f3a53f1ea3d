"""Schedules as Kubernetes reads those of CronJobs: five fields of cron, or a name for them."""

from __future__ import annotations

import re

_NAMES = frozenset(f"@{name}" for name in ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Of each field: the least value, the greatest, and names of values, from the least on.
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_PART = re.compile(r"(?:[*?]|([0-9a-z]+)(?:-([0-9a-z]+))?)(?:/([0-9]{1,4}))?")


def is_schedule(text: str) -> bool:
    """Whether Kubernetes takes ``text``. ``TZ=`` before it is not taken: a CronJob has a field for that."""
    fields = text.split()
    if len(fields) == 1:
        return text in _NAMES
    return len(fields) == len(_FIELDS) and all(
        all(_is_part(part, *bounds) for part in field.lower().split(","))
        for field, bounds in zip(fields, _FIELDS, strict=True)
    )


def _is_part(text: str, least: int, greatest: int, names: tuple[str, ...]) -> bool:
    """A value, a range of values, or all of them; each or every nth."""
    found = _PART.fullmatch(text)
    if found is None:
        return False
    values = [least + names.index(each) if each in names else _number(each) for each in found.groups()[:2] if each]
    step = found.group(3)
    return (
        all(least <= each <= greatest for each in values) and values == sorted(values) and (not step or int(step) > 0)
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1
