"""The three backends of blobs, for every suite that must not know which one it is on."""

from __future__ import annotations

from collections.abc import Callable

from testkit import s3
from understudy.blobs.model import BlobStore
from understudy.blobs.s3 import S3BlobStore
from understudy.s3.settings import S3Settings

#: Seconds of a request that must not time out, however busy the machine is.
PATIENT = 30.0

Made = Callable[[], BlobStore]


def bucket(
    port: int, prefix: str, *, timeout: float = PATIENT, secret: str = s3.SECRET, name: str = s3.BUCKET
) -> BlobStore:
    settings = S3Settings(f"http://127.0.0.1:{port}", "us-east-1", path_style=True, key=s3.KEY, secret=secret)
    return S3BlobStore(name, prefix, settings, timeout)
