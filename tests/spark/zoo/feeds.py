"""What the zoo's scripts are fed: orders and their payments, one file of each per step, the same for the same step."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

#: Rows in one file of orders. A step is a minute of event time; nothing in it is later than the next one's first row.
ROWS = 40

#: ``in/<kind>``, one file of each per step.
KINDS = ("orders", "payments")

_FIRST = datetime(2024, 1, 1, tzinfo=UTC)
_COUNTRIES = ("CZ", "DE", "FR", "JP", "PE")
_PRODUCTS = ("bolt", "gear", "nut", "pin", "washer")


def orders(step: int) -> Iterator[dict[str, Any]]:
    """One order in ten is told twice, as a shop's retries would."""
    chance = random.Random(step)
    for row in range(ROWS):
        order = {
            "order_id": step * ROWS + row,
            "ordered_at": _text(step, row),
            "customer": f"c{chance.randrange(12):02d}",
            "country": chance.choice(_COUNTRIES),
            "product": chance.choice(_PRODUCTS),
            "quantity": chance.randint(1, 9),
            "price": chance.randint(100, 9999) / 100,
        }
        yield order
        if chance.random() < 0.1:
            yield order


def payments(step: int) -> Iterator[dict[str, Any]]:
    """Two in three orders are paid, within the minute."""
    chance = random.Random(f"paid {step}")
    for row in range(ROWS):
        if chance.random() < 0.67:
            paid = {
                "order_id": step * ROWS + row,
                "paid_at": _text(step, row),
                "method": chance.choice(("card", "wire")),
            }
            yield paid


def messages(step: int) -> list[str]:
    """A step's orders, for a topic."""
    return [json.dumps(order) for order in orders(step)]


def feed(home: Path, step: int) -> None:
    """Put a step's files where the scripts look, whole or not at all, and of an age that only depends on the step.

    A file source takes the oldest first, so that batches of one file each are the same in every run.
    """
    for kind, rows in zip(KINDS, (orders(step), payments(step)), strict=True):
        directory = home / "in" / kind
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory, f"{kind}-{step:05d}.json", rows, step)


def _write(directory: Path, name: str, rows: Iterable[dict[str, Any]], step: int) -> None:
    partial = directory / f".{name}"
    partial.write_text("".join(json.dumps(row) + "\n" for row in rows))
    since = _FIRST.timestamp() + 60 * step
    os.utime(partial, (since, since))
    partial.rename(directory / name)


def _text(step: int, row: int) -> str:
    return (_FIRST + timedelta(minutes=step, seconds=row * 60 / ROWS)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
