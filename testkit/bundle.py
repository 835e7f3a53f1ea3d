"""A stack of the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The least that a stack has to say.
LEAST: Mapping[str, Any] = {
    "clusterId": "flights",
    "namespace": "streaming",
    "image": "flights:1.0.0",
    "script": "/app/flights.py",
    "bucket": "flights",
}
