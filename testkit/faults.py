"""What goes wrong on the way to a server and back."""

from __future__ import annotations

from enum import Enum


class Fault(Enum):
    """What befalls a write. The client sees ``Unknown`` in each case."""

    LOST_REQUEST = "the server never sees it"
    LOST_ANSWER = "it lands, and the answer gets lost"
    DELAYED = "it lands later, if its compare-and-set still holds then"
