"""What the options of our benchmarks have in common."""

from __future__ import annotations

import argparse
from collections.abc import Collection


def refuse_unknown(
    parser: argparse.ArgumentParser, argument: str, given: Collection[str], known: Collection[str]
) -> None:
    """Exits with what is not among ``known``, and with what is."""
    if unknown := set(given) - set(known):
        parser.error(f"argument {argument}: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
