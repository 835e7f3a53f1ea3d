"""What tells one write from all others."""

from __future__ import annotations

import uuid


def unique() -> str:
    """A text that was never given before."""
    return uuid.uuid4().hex
