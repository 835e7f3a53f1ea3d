"""A file of JSON that says what it is: ``kind`` and ``version`` beside the fields of a dataclass."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from understudy.protocol import typed
from understudy.protocol.strict_json import parse

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def encode(kind: str, version: int, value: DataclassInstance) -> bytes:
    """JSON for people and programs, the same for the same ``value``."""
    body = {"kind": kind, "version": version, **asdict(value)}
    return f"{json.dumps(body, indent=2, sort_keys=True)}\n".encode()


def decode(kind: str, version: int, data: bytes, into: type[T]) -> T:
    """Fields of a newer release are left out. Raises ``ValueError``, also for another kind or version."""
    body = parse(data.decode("utf-8"))
    if not isinstance(body, dict) or body.get("kind") != kind:
        raise ValueError("it is none of ours")
    if body.get("version") != version:
        raise ValueError(f"its version is {body.get('version')!r}, and {version} is known here")
    return typed.build_known(into, body)
