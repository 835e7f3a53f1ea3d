"""Parts of the machine that fail when they are used next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


class Planned(OSError):
    """A failure that the history wanted."""


@dataclass(slots=True)
class Failures:
    """``planned``: how often each part, by its name, fails from now on."""

    planned: Counter[str] = field(default_factory=Counter)

    def at(self, part: str) -> None:
        """Raises ``Planned`` where the use of ``part`` is to fail."""
        if self.planned[part] > 0:
            self.planned[part] -= 1
            raise Planned(28, "No space left on device")
