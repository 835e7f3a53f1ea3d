from __future__ import annotations

import pytest

from understudy.errors import EnvironmentProblem
from understudy.protocol.driver_spec import DriverSpec
from understudy.protocol.messages import Granted, RehearsalReport, Roots, decode, encode


@pytest.mark.parametrize(
    "message",
    [
        Granted(7 << 32 | 1),
        Roots(["/a", "/b"]),
        RehearsalReport("job.py:4", rehearsed=True, how="live", rounds=3, seconds=1.5),
    ],
)
def test_a_message_is_one_line_and_comes_back_equal(message: Granted | Roots | RehearsalReport) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b"[]", b"null", b'{"say": "Shout"}', b'{"say": "Granted"}', b'{"say": "Granted", "x": 1}', b"\xff"],
)
def test_a_line_that_is_no_message_is_an_error_and_never_ignored(line: bytes) -> None:
    with pytest.raises(EnvironmentProblem, match="no message"):
        decode(line)


def test_a_driver_specification_survives_the_environment() -> None:
    spec = DriverSpec(
        *("h", "c", "j", "file", "/g", "/a", "/jar", "/log"),
        1.5,
        "/c",
        "/s",
        "live",
        4,
        30.0,
        rows_per_hour=1000,
        bytes_per_hour=10**9,
        parent=1,
        low_priority=True,
        tune=False,
        script="/x.py",
        arguments=["a b"],
    )
    assert DriverSpec.decode(spec.encode()) == spec
