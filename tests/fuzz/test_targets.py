"""The targets themselves; ``make prove`` fuzzes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fuzz.targets import SEEDS, TARGETS

OTHERS: tuple[Any, ...] = (None, True, -1, 1e300, "", "x", [], {}, [None], {"a": []})


@pytest.mark.parametrize("name", TARGETS)
def test_an_intact_example_and_each_of_its_beginnings_is_read_or_refused(name: str) -> None:
    seed = SEEDS[name]
    for length in range(len(seed) + 1):
        TARGETS[name](seed[:length])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("data", [b"", b"\0", b"null", b"[]", b"{}", b'"x"', b"1e999", b"[" * 5000, b"\xff\xfe"])
def test_what_is_no_example_at_all(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize("name", [name for name, seed in SEEDS.items() if seed.startswith(b"{")])
def test_an_example_with_any_one_value_replaced(name: str) -> None:
    example: dict[str, Any] = json.loads(SEEDS[name])
    for key in example:
        for other in OTHERS:
            TARGETS[name](json.dumps(example | {key: other}).encode())
