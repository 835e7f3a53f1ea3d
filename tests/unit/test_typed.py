"""A dataclass is made of a JSON object only if every field is there, known and of its type; the error names the field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from understudy.protocol.typed import build


@dataclass(frozen=True, slots=True)
class Mood:
    kind: ClassVar[str] = "mood"
    tone: Literal["calm", "loud"] = "calm"


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    count: int
    seconds: float
    done: bool = False
    roots: list[str] = field(default_factory=list)
    recorded: dict[str, int] = field(default_factory=dict)
    mood: Mood = field(default_factory=Mood)


WHOLE = {"name": "a", "count": 1, "seconds": 1.5}


@pytest.mark.parametrize(
    ("body", "made"),
    [
        (WHOLE, Sample("a", 1, 1.5)),
        ({**WHOLE, "seconds": 2}, Sample("a", 1, 2)),
        ({**WHOLE, "done": True, "roots": ["/r"], "recorded": {"/r": 7}}, Sample("a", 1, 1.5, True, ["/r"], {"/r": 7})),
        ({**WHOLE, "roots": [], "recorded": {}}, Sample("a", 1, 1.5)),
        ({**WHOLE, "mood": {"tone": "loud"}}, Sample("a", 1, 1.5, mood=Mood("loud"))),
        ({**WHOLE, "mood": {}}, Sample("a", 1, 1.5)),
    ],
)
def test_what_fits_is_made(body: dict[str, object], made: Sample) -> None:
    assert build(Sample, body) == made


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "Sample lacks name"),
        ({"name": "a", "count": 1}, "Sample lacks seconds"),
        ({**WHOLE, "color": "red"}, "Sample has no field color"),
        ({**WHOLE, "name": 7}, "Sample.name is str, not int"),
        ({**WHOLE, "name": None}, "Sample.name is str, not null"),
        ({**WHOLE, "count": "1"}, "Sample.count is int, not str"),
        ({**WHOLE, "count": True}, "Sample.count is int, not bool"),
        ({**WHOLE, "count": 1.0}, "Sample.count is int, not float"),
        ({**WHOLE, "seconds": True}, "Sample.seconds is float, not bool"),
        ({**WHOLE, "seconds": "1.5"}, "Sample.seconds is float, not str"),
        ({**WHOLE, "done": 1}, "Sample.done is bool, not int"),
        ({**WHOLE, "roots": "/r"}, r"Sample.roots is list\[str\], not str"),
        ({**WHOLE, "roots": ["/r", 7]}, r"Sample.roots is list\[str\], not list"),
        ({**WHOLE, "recorded": {"/r": "7"}}, r"Sample.recorded is dict\[str, int\], not dict"),
        ({**WHOLE, "recorded": ["/r"]}, r"Sample.recorded is dict\[str, int\], not list"),
        ({**WHOLE, "mood": "loud"}, "Sample.mood is Mood, not str"),
        ({**WHOLE, "mood": {"tone": "shrill"}}, "Mood.tone is one of calm, loud, not str"),
        ({**WHOLE, "mood": {"tone": ["calm"]}}, "Mood.tone is one of calm, loud, not list"),
        ({**WHOLE, "mood": {"kind": "mood"}}, "Mood has no field kind"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(body: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        build(Sample, body)
