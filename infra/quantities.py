"""Amounts as Kubernetes and the JVM write them, for rules that compare them."""

from __future__ import annotations

import re

_KUBERNETES = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|[kMGTPE]|[KMGTPE]i)?")
_JAVA = re.compile(r"([0-9]+)([kmgt])b?", re.IGNORECASE | re.ASCII)
_POWERS = "KMGTPE"


def quantity(text: str) -> float | None:
    """In bytes or cores; ``None`` for what is no quantity or not above 0. The exponent form (1e3) is refused for clarity."""
    found = _KUBERNETES.fullmatch(text)
    if found is None:
        return None
    number, unit = float(found[1]), found[2] or ""
    if unit == "m":
        number /= 1000
    elif unit:
        number *= (1024 if unit.endswith("i") else 1000) ** (_POWERS.index(unit[0].upper()) + 1)
    return number or None


def java_bytes(text: str) -> int | None:
    """What Spark makes of ``512m`` or ``2g``. A number without a unit is refused: Spark reads it as MiB or as bytes."""
    found = _JAVA.fullmatch(text)
    if found is None or int(found[1]) == 0:
        return None
    return int(found[1]) << 10 * ("kmgt".index(found[2].lower()) + 1)
