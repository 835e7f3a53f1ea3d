"""Which directory of this machine a URL names."""

from __future__ import annotations

from pathlib import Path


def local_directory(url: str) -> Path | None:
    """The directory that ``url`` is, as a path, ``file:///path`` or ``file:/path``, which Hadoop writes; ``None`` where it is none."""
    scheme, slashes, place = url.partition("://")
    if slashes:
        return Path(place).absolute() if scheme == "file" else None
    if url.startswith("file:/"):
        return Path(url.removeprefix("file:"))
    return None if url.startswith("file:") else Path(url).absolute()
