"""That the data of a cluster id have been moved: the entry ``moved`` of its replicas' document, and of a lock that was left.

``understudy claims move`` writes it, and every start of a replica reads it. A claim names the kind of lock that granted its token, and
claims of another kind refuse ours, since two kinds of lock do not exclude each other. After a move the kind that was left grants nothing
any more. So the entry lists each *former lock* with the highest epoch it granted, and claims up to that epoch are followed.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field

from understudy.documents import codec
from understudy.documents.model import Document
from understudy.errors import DocumentUnreadable, IdentityConflict
from understudy.protocol import typed

ENTRY = "moved"
_VERSION = 1


class State(enum.StrEnum):
    #: The data have left: no replica starts here.
    GONE = "gone"
    #: The data are being written here: no replica starts yet.
    ARRIVING = "arriving"
    #: The data have come from elsewhere, and the job runs here.
    HERE = "here"


@dataclass(frozen=True, slots=True)
class Moved:
    """``move``: the id of the move, equal at both places. ``place``: the other one, in words. ``ours``: this one. ``lock``: the kind of
    lock that grants from now on. ``epoch``: the highest that was granted before. ``former``: epochs by kind of lock. ``at``: seconds since 1970.
    """

    state: str
    move: str
    place: str
    ours: str
    lock: str
    epoch: int = 0
    former: dict[str, int] = field(default_factory=dict)
    at: float = 0.0

    def encode(self) -> str:
        return codec.encode(ENTRY, _VERSION, asdict(self))

    @classmethod
    def of(cls, document: Document | None) -> Moved | None:
        """``None`` where nothing has ever been moved. Raises ``DocumentUnreadable``."""
        if document is None or (text := document.entries.get(ENTRY)) is None:
            return None
        _, body = codec.decode(ENTRY, text, where=document.name, revision=document.revision)
        try:
            found = typed.build_known(cls, body)
            State(found.state)
        except ValueError as error:
            raise DocumentUnreadable(
                f"where the job has moved cannot be read: {error}", where=document.name, remedy="Restore it"
            ) from None
        return found

    def refuse_unless_here(self, where: str) -> None:
        """Raises ``IdentityConflict`` where no replica may start and no command may change the job."""
        if self.state == State.GONE:
            raise IdentityConflict(
                f"the job has moved to {self.place}",
                where=where,
                remedy="Start its replicas, and call commands, with the --ha, --ha-address and --lock of that place; understudy claims move "
                "brings it back",
            )
        if self.state == State.ARRIVING:
            raise IdentityConflict(
                f"the job is being moved here from {self.place}, and has not arrived",
                where=where,
                remedy="Repeat understudy claims move: it goes on where it was broken off",
            )


def refuse_left_lock(document: Document | None, where: str) -> None:
    """Raises ``IdentityConflict`` for a lock that was left for another kind, and ``DocumentUnreadable``."""
    if document is not None and document.buried and (moved := Moved.of(document)) is not None:
        moved.refuse_unless_here(where)
