"""JSON without its ambiguities.

Duplicate keys, NaN and infinities are refused because two readers may understand them differently.
"""

from __future__ import annotations

import json
from typing import NoReturn


def parse(text: str | bytes) -> object:
    """The value of ``text``. Raises ``ValueError`` with the reason."""
    try:
        whole = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
        return _DECODER.decode(whole)
    except RecursionError:
        message = "nested too deeply"
        raise ValueError(message) from None


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        message = "a key occurs twice"
        raise ValueError(message)
    return result


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise ValueError(message)


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
