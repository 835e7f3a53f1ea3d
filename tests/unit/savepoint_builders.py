"""A savepoint as a driver leaves it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from understudy.ha.savepoints import Manifest
from understudy.protocol.savepoint import SavedQuery

NOW = 1000.0


def query(directory: str = "flights", **more: Any) -> SavedQuery:
    known = {"batch": 12, "files": 0, "bytes": 0, "digest": "", "how": "live", **more}
    return SavedQuery(directory, f"file:/{directory}", "parquet", "/out", directory=directory, **known)


MANIFEST = Manifest("c", "j", 1, NOW, "4.2.1", [query()])


def written() -> tuple[dict[str, bytes], Manifest]:
    """What is stored of one, and its manifest."""
    files = {"metadata": b'{"id":"a"}', "offsets/12": b"v1", "commits/12": b"v1", "state/0/0/13.delta": b"rows"}
    lines = [f"{hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" for name, data in sorted(files.items())]
    listed = "".join(lines).encode()
    manifest = replace(MANIFEST, queries=[query(files=4, digest=hashlib.sha256(listed).hexdigest())])
    stored = {f"flights/{name}": data for name, data in files.items()}
    return {**stored, "flights.files": listed, "manifest.json": manifest.encode()}, manifest
