"""One line for each thing that is done."""

from __future__ import annotations

import sys


def say(sentence: str) -> None:
    """To standard error: what ``env`` and ``status`` print on standard output is for programs."""
    print(f"cluster: {sentence}", file=sys.stderr, flush=True)
