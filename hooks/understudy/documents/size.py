"""Documents hold pointers. Past half of the limit someone should know, past the limit the write is refused before it is sent."""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.documents.model import LIMIT, check_size
from understudy.events import Log


@dataclass(slots=True)
class SizeCheck:
    """Warns once per document, and again only after it has been small in between."""

    log: Log | None
    warned: set[str] = field(default_factory=set)

    def check(self, name: str, size: int) -> None:
        """Raises ``DocumentTooLarge``; ``size`` is in bytes."""
        check_size(name, size)
        if size <= LIMIT // 2:
            self.warned.discard(name)
        elif name not in self.warned:
            self.warned.add(name)
            if self.log is not None:
                sentence = f"{name} is past half of what one document may hold; keep pointers in it and data elsewhere"
                self.log.say("document-large", sentence, document=name, bytes=size, limit=LIMIT)
