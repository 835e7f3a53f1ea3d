"""The fencing token: which grant, and which start of a driver under it."""

from __future__ import annotations

from dataclasses import dataclass

_ATTEMPT_BITS = 32
_ATTEMPT_MASK = (1 << _ATTEMPT_BITS) - 1
_EPOCH_MAX = (1 << 31) - 1  # the integer stays positive in a signed 64-bit column


@dataclass(frozen=True, slots=True, order=True)
class Token:
    """Ordered by epoch, then attempt. As one integer ``epoch << 32 | attempt``, fit for a signed 64-bit column.

    ``epoch`` grows at every grant and is never reused. ``attempt`` grows at every start of a driver within a grant, so that a
    driver restarted in place is fenced from its own predecessor.
    """

    epoch: int
    attempt: int

    def __post_init__(self) -> None:
        if not 0 <= self.epoch <= _EPOCH_MAX or not 0 <= self.attempt <= _ATTEMPT_MASK:
            raise ValueError(f"no such token: epoch {self.epoch}, attempt {self.attempt}")

    def __int__(self) -> int:
        return self.epoch << _ATTEMPT_BITS | self.attempt

    @classmethod
    def from_int(cls, value: int) -> Token:
        return cls(value >> _ATTEMPT_BITS, value & _ATTEMPT_MASK)

    def __str__(self) -> str:
        return f"{self.epoch}.{self.attempt}"


#: Above every token there will ever be: for those who are no leader, and have none of their own.
HIGHEST = Token(_EPOCH_MAX, _ATTEMPT_MASK)

#: Below every token that was ever granted.
NONE = Token(0, 0)
