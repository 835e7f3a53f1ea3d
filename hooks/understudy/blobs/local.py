"""Which directory of this machine a URL names, and whether what was there is there now."""

from __future__ import annotations

from pathlib import Path

from understudy.blobs.probe import NAME
from understudy.errors import RequestRefused


def local_directory(url: str) -> Path | None:
    """The directory that ``url`` is, as a path, ``file:///path`` or ``file:/path``, which Hadoop writes; ``None`` where it is none."""
    scheme, slashes, place = url.partition("://")
    if slashes:
        return Path(place).absolute() if scheme == "file" else None
    if url.startswith("file:/"):
        return Path(url.removeprefix("file:"))
    return None if url.startswith("file:") else Path(url).absolute()


def refuse_unmounted(storage: Path, below: str) -> None:
    """Raises ``RequestRefused`` unless the HA storage at ``storage`` is here, and not just a directory where other machines have it mounted: each replica has
    left its probe there; or what is ``below`` is, which one can make.
    """
    if not (storage / NAME).exists() and not (storage / below).is_dir():
        raise RequestRefused(
            "this machine does not have that HA storage: it is not mounted, or another machine's disk",
            where=str(storage),
            remedy=f"Run this where it is; if it is lost for good, make the directory {storage / below} here first, and repeat it",
        )
