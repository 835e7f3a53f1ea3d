"""SHA-256 of what is stored: blobs are compared with it before they are used."""

from __future__ import annotations

import hashlib


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_whole(data: bytes | None, digest: str, length: int) -> bool:
    """Whether ``data`` are the bytes with that SHA-256 and length; false for what is gone."""
    return data is not None and len(data) == length and sha256(data) == digest
