"""Blocking calls in threads of their own, where this machine gives us none. What hangs: ``tests/contract/test_filesystem.py``."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Content, Unknown
from understudy.errors import DocumentError


def test_a_machine_that_has_no_thread_for_us_for_a_while_is_told_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a limit on processes is reached. What could not begin counted as a request that hangs, for good."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        store = FilesystemDocumentStore(tmp_path, 30.0)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            for _ in range(40):
                with pytest.raises(DocumentError, match="can't start new thread"):
                    await store.read("flights")
            assert isinstance(await store.create("flights", Content({"a": "b"})), Unknown)
        assert await store.read("flights") is None

    asyncio.run(run())
