"""What an operator finds in ``kubectl describe pod``: an Event for each sentence that is worth one, and never a reason to stop."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import understudy
from tests.unit.answering import served
from understudy.documents.api_server import ApiServer
from understudy.events import Log
from understudy.supervisor.recorder import ANNOUNCED, EventRecorder


async def told(log: Log, *said: tuple[str, str], status: int = 201) -> list[dict[str, Any]]:
    """The Events that a server got when ``log`` said these."""
    got: list[dict[str, Any]] = []

    async def handler(request: web.Request) -> web.Response:
        got.append(await request.json())
        return web.json_response({"message": "no"} if status > 201 else {}, status=status)

    async def say(api: ApiServer) -> None:
        recorder = EventRecorder(api, "flights-0", "uid-0", log)
        for event, sentence in said:
            log.say(event, sentence)
        await recorder.close()

    await served(handler, say)
    return got


@pytest.mark.parametrize(
    ("event", "kind", "reason"),
    [
        ("claimed", "Normal", "LeadershipGranted"),
        ("lost", "Warning", "LeadershipLost"),
        ("stale-write-refused", "Warning", "StaleWriteRefused"),
        ("document-large", "Warning", "DocumentLarge"),
        ("stopped-for", "Warning", "ReplicaRefused"),
        ("status-write-failed", "Warning", "DocumentNotWritten"),
    ],
)
def test_what_matters_becomes_an_event_of_the_pod(event: str, kind: str, reason: str) -> None:
    (sent,) = asyncio.run(told(Log(stream=io.StringIO()), (event, "so it is"), ("renewed", "no event")))
    assert (sent["type"], sent["reason"], sent["note"], sent["action"]) == (kind, reason, "so it is", event)
    assert (sent["regarding"]["name"], sent["regarding"]["uid"]) == ("flights-0", "uid-0")


def test_a_note_is_no_longer_than_the_api_server_takes() -> None:
    (sent,) = asyncio.run(told(Log(stream=io.StringIO()), ("lost", "x" * 5000)))
    assert len(sent["note"]) == 1024


def test_that_events_cannot_be_written_is_said_once() -> None:
    log = Log(stream=(lines := io.StringIO()))
    sent = asyncio.run(told(log, ("lost", "one"), ("lost", "two"), status=403))
    assert [each["note"] for each in sent] == ["one", "two"]
    assert lines.getvalue().count("Events cannot be written: 403") == 1


def test_what_is_announced_is_said_somewhere() -> None:
    """A sentence that was renamed would be an Event that is never seen."""
    source = "".join(
        path.read_text() for path in Path(understudy.__file__).parent.rglob("*.py") if path.name != "recorder.py"
    )
    assert [event for event in ANNOUNCED if f'"{event}"' not in source] == []
