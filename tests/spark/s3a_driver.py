"""A driver with the fence whose files are on an S3 server, and a proxy in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from testkit import s3
from tests.spark.fence_env import SPARK_OPTIONS, Driver, class_path, driver, refusal


@contextmanager
def s3a_driver(directory: Path) -> Iterator[Driver]:
    """Its ``extra`` has the ``proxy``, and where the bucket's objects are seen as files (``data``)."""
    try:
        classes = class_path(f"{s3.s3a_jars()}/*")
        s3.versitygw()
    except s3.Missing as missing:
        pytest.fail(str(missing))
    with (
        s3.server(directory) as port,
        s3.S3Proxy(port).running() as proxy,
        # a machine that stands still for two seconds loses no answer
        driver(directory, classes=classes, options=SPARK_OPTIONS, timeout_ms=3000) as made,
    ):
        made.extra.update(proxy=proxy, data=directory / "s3" / s3.BUCKET)
        for name, value in s3.settings(proxy.port).items():
            made.conf.set(name, value)
        yield made


def closes(out: Any) -> str:
    """Why a file could not be closed; empty if it was."""
    try:
        out.close()
    except Py4JJavaError as error:
        return refusal(error)
    return ""


def names(one: Driver, manager: Any, path: str) -> list[str]:
    """Of the files that a checkpoint's manager lists below ``path``."""
    every = one.jvm.org.apache.hadoop.fs.GlobFilter("*")
    return sorted(status.getPath().getName() for status in manager.list(one.path(path), every))


def ending(root: str) -> str:
    """The last name of a directory's, by which requests are told apart."""
    return root.rsplit("/", 1)[1]
