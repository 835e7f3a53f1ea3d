"""What goes over a driver's channel: one line a message, and a line that is none is an error that names the field."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from understudy.config.tree import Rehearsal, SparkDefaults
from understudy.errors import EnvironmentProblem
from understudy.protocol.driver_spec import DriverSpec
from understudy.protocol.messages import CommittedBatch, Granted, Message, RehearsalReport, Roots, decode, encode
from understudy.protocol.savepoint import SavedQuery

SAMPLES: dict[Any, Any] = {
    str: "text",
    bool: True,
    int: 7,
    float: 1.5,
    list[str]: ["/a", "/b"],
    dict[str, int]: {"/a": 30064771073},
    dict[str, str]: {"q": "it failed"},
    list[CommittedBatch]: [CommittedBatch("/a", "flights", "parquet", 7)],
    list[SavedQuery]: [SavedQuery("flights", "/a", "parquet", "/out", 7, "flights", 3, 1024, "0f" * 32, "live")],
}


def sample(kind: type[Message]) -> Message:
    hints = get_type_hints(kind)
    return kind(**{item.name: SAMPLES[hints[item.name]] for item in fields(kind)})


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(Granted(7 << 32 | 1), id="with a default"),
        pytest.param(
            RehearsalReport("job.py:4", rehearsed=True, how="live", rounds=3, seconds=1.5), id="with defaults"
        ),
        *[pytest.param(sample(kind), id=kind.__name__) for kind in get_args(Message)],
    ],
)
def test_a_message_is_one_line_and_comes_back_equal(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message


@pytest.mark.parametrize("text", ["\udc80", "a\nb", "ü→", "\x00"])
def test_any_text_goes_over_the_channel(text: str) -> None:
    assert decode(encode(Roots([text]))) == Roots([text])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "Expecting value"),
        (b"\xff", "utf-8"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b"{}", "message: None is none"),
        (b'{"message": "Shout"}', "message: 'Shout' is none"),
        (b'{"message": ["Granted"]}', "is none"),
        (b'{"message": "Granted"}', "Granted lacks token"),
        (b'{"message": "Granted", "x": 1}', "Granted lacks token"),
        (b'{"message": "Granted", "token": 7, "x": 1}', "Granted has no field x"),
        (b'{"message": "Granted", "token": "7"}', "Granted.token is int, not str"),
        (b'{"message": "Granted", "token": true}', "Granted.token is int, not bool"),
        (b'{"message": "Granted", "token": 7, "recorded": {"/r": null}}', r"Granted.recorded is dict\[str, int\]"),
        (b'{"message": "Roots", "roots": ["/a", 7]}', r"Roots.roots is list\[str\], not list"),
        (b'{"message": "Quiesced", "clean": "yes"}', "Quiesced.clean is bool, not str"),
        (b'{"message": "PauseRehearsals", "seconds": null}', "PauseRehearsals.seconds is float, not null"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_line_that_is_no_message_is_an_error_that_names_the_field(line: bytes, said: str) -> None:
    with pytest.raises(EnvironmentProblem, match="no message") as caught:
        decode(line)
    with pytest.raises(EnvironmentProblem, match=said):
        decode(line)
    assert caught.value.where == "driver channel"


def spec() -> DriverSpec:
    return DriverSpec(
        *("h", "c", "j", "file", "/g", "/a", "/jar", "/log"),
        1.5,
        "/c",
        "/s",
        Rehearsal(mode="plan", rounds=4, every=30.0, rows=1000, bytes=10**9),
        SparkDefaults(tune=True),
        parent=1,
        low_priority=True,
        script="/x.py",
        arguments=["a b"],
    )


def test_a_driver_specification_survives_the_environment() -> None:
    assert DriverSpec.decode(spec().encode()) == spec()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parent": "1"}, "DriverSpec.parent is int, not str"),
        ({"arguments": "a b"}, r"DriverSpec.arguments is list\[str\], not str"),
        ({"idle": True}, "DriverSpec has no field idle"),
        ({"rehearsal": {"mode": "loudly"}}, "Rehearsal.mode is one of live, synthetic, plan, off, not str"),
        ({"spark": {"tune": "yes"}}, "SparkDefaults.tune is bool, not str"),
    ],
)
def test_a_driver_specification_that_is_none_is_refused_by_the_field(changes: dict[str, object], said: str) -> None:
    with pytest.raises(EnvironmentProblem, match=said):
        DriverSpec.decode(json.dumps({**json.loads(spec().encode()), **changes}))
