"""``understudy leader``: what the job's document says of who leads, once or at every takeover."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.doubles.claims import claim
from tests.unit.test_cli_status import begin, of_machine
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.ha.job_store import JobStore


def store(home: Path) -> JobStore:
    return JobStore(
        FilesystemDocumentStore(home / "flights" / "documents", 5.0), "flights-flights", "flights", "job.py"
    )


def test_where_no_leader_is_known_it_says_so_and_ends_with_9(tmp_path: Path) -> None:
    begin(tmp_path, "flights")
    found = of_machine(tmp_path, "leader")
    assert (found.code, found.out) == (9, "")
    assert "no leader of component endpoint is known" in found.error


def test_it_prints_the_address_and_nothing_else(tmp_path: Path) -> None:
    begin(tmp_path, "flights")
    asyncio.run(claim(store(tmp_path), 2, "me", "host:8080"))
    assert of_machine(tmp_path, "leader").out == "host:8080\n"
    assert of_machine(tmp_path, "leader", "--component", "job").out == "me\n"


def test_it_follows_from_one_leader_to_the_next(tmp_path: Path) -> None:
    begin(tmp_path, "flights")

    async def run() -> None:
        await claim(store(tmp_path), 2, "me", "host:1")
        words = (sys.executable, "-m", "understudy.cli.main", "leader", "--ha-dir", str(tmp_path), "--follow")
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, env={**os.environ})
        assert process.stdout is not None
        try:
            assert await process.stdout.readline() == b"host:1\n"
            await claim(store(tmp_path), 3, "you", "")
            assert await process.stdout.readline() == b"none\n"
            await claim(store(tmp_path), 4, "them", "host:3")
            assert await process.stdout.readline() == b"host:3\n"
        finally:
            process.kill()
            await process.wait()

    asyncio.run(asyncio.wait_for(run(), 60.0))
