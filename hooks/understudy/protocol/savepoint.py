"""What a savepoint holds of each query: as the driver reports it, and as the manifest keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """``root``: the checkpoint that was copied to ``directory``, a name below the savepoint's place. ``batch``: the last one that is committed
    in it; -1 for a query that had committed none, of which nothing is copied.

    ``files`` and ``bytes`` count what was copied; ``digest`` is the SHA-256 of the list of it, which stands beside ``directory``. ``how`` it was
    rehearsed: live or synthetic; empty where it was not. ``within``: how many of the files the store copied by itself; the others went through the
    driver's JVM. ``sink`` and ``output`` (where the sink is, if that is known) are for people.
    """

    query: str
    root: str
    sink: str
    output: str
    batch: int
    directory: str
    files: int
    bytes: int
    digest: str
    how: str = ""
    within: int = 0
