"""How a script is kept alive while its leaders are killed, and which of these ways a benchmark compares."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from testkit.options import refuse_unknown
from testkit.places import REPOSITORY


@dataclass(frozen=True, slots=True)
class Variant:
    """``fenced`` ones write a fence's log, which says who committed. ``checkout``: whose ``understudy`` runs."""

    name: str
    replicas: int
    fenced: bool
    options: tuple[str, ...] = ()
    checkout: Path = REPOSITORY


UNDERSTUDY = Variant("understudy", 3, fenced=True)
OPEN_SESSION = Variant("open_session", 3, fenced=True, options=("--rehearse=off",))
RESTART = Variant("restart", 1, fenced=False)


def add_options(parser: argparse.ArgumentParser, variants: Sequence[Variant]) -> None:
    parser.add_argument("--variants", default=",".join(each.name for each in variants), help="which of them")
    parser.add_argument(
        "--beside", type=Path, metavar="CHECKOUT", help="another checkout of Understudy, set up, to take turns with"
    )


def chosen(parser: argparse.ArgumentParser, options: argparse.Namespace, variants: Sequence[Variant]) -> list[Variant]:
    """Those that ``--variants`` names, and as the second one what ``--beside`` names, by its commit. Exits where there is none."""
    names = options.variants.split(",")
    refuse_unknown(parser, "--variants", names, [each.name for each in variants])
    found = [each for each in variants if each.name in names]
    if options.beside is not None:
        checkout = options.beside.resolve()
        if not any((checkout / "hooks" / "understudy" / "jars").glob("*.jar")):
            parser.error(f"argument --beside: {checkout} has no fence; run tools/setup.sh jar there")
        head = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
        found.insert(1, replace(variants[0], name=commit, checkout=checkout))
    return found
