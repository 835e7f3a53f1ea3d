"""Java's classes by their full names."""

from __future__ import annotations

from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """The class ``name``, in one question to the JVM; a ``JavaPackage`` where there is none.

    ``jvm.org.apache...`` asks for ``org``, ``org.apache`` and so on first, and the JVM looks for a class of each name in every jar there is:
    milliseconds of a processor, each time.
    """
    return getattr(jvm, name)
