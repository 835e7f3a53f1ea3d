"""Every parser of stored or received bytes, and what it may do with any of them: give something whole, or refuse by its own error.

A target takes bytes. What it raises is a crash. ``SEEDS`` are intact examples that a fuzzer begins with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from understudy.documents import codec, record
from understudy.documents.kubernetes import ConfigMapShape, KubernetesDocumentStore, LeaseShape, Shape
from understudy.documents.model import Content, Document, LeaderRecord
from understudy.documents.record import Record
from understudy.election.records import GRANT, Free, GrantEntry, decode_grant, lock_state_of
from understudy.errors import DocumentUnreadable, EnvironmentProblem
from understudy.fencing.claim import standing_claim
from understudy.ha.artifacts import Attached, File, Manifest
from understudy.ha.components import Components
from understudy.ha.job import ENTRY, Job, Status
from understudy.ha.moved import Moved, State
from understudy.ha.replicas import Replica
from understudy.ha.runs import PastRun, Runs
from understudy.ha.submissions import Submission, Submissions
from understudy.protocol import claim as claim_json
from understudy.protocol import counters as counters_page
from understudy.protocol import gate as gate_page
from understudy.protocol import messages
from understudy.protocol.claim import Claim
from understudy.protocol.counters import PAGE, Commit, Counts
from understudy.protocol.messages import Granted
from understudy.protocol.names import LEADER_ANNOTATION
from understudy.protocol.strict_json import parse
from understudy.protocol.token import Token

JOB = Job("flights", "flights.py", Status.RUNNING, Token(3, 2), Token(3, 1), "h", (1.5,), ("s3a://b/x",), 2.5, "why")
RUNS = Runs("two", 1.5, 7, 0.0, (PastRun("one", "FINISHED", 1.0),))
REPLICA = Replica("h", "standby", True, "live", 4, 1.5, "job.py:1", "", 2, 7, "pod", 9, "boot", 0.5, "10.0.0.1:8080")
CLAIM = Claim(Token(3, 2), "h", "c", "j", "lease")
COUNTS = Counts(3, 1, 2, 1, 1.5, 41, 7 << 32, Commit(7 << 32, "file:/c", 41))
MANIFEST = Manifest("c", "j", File("job.py", "a" * 64, 3), ["1"], ["--conf", "a=b"], [Attached("--jars", "s3a://b/x")])
_GRANT = GrantEntry(3, "h", "n", released=True, successor="g")
_CONTENT = Content(leader=LeaderRecord("h", 15.0, "then", "then", 3))


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def stored_document(data: bytes) -> None:
    """A file, an S3 object, a znode. Only a lock that was written as released is free."""
    try:
        found = record.load("lock", data, where="", revision="1")
    except DocumentUnreadable:
        return
    assert record.load("lock", record.dump("lock", found), where="", revision="1") == found
    if isinstance(lock_state_of(found.document("lock", "1")), Free):
        assert decode_grant(found.entries[GRANT]).released


def grant(data: bytes) -> None:
    try:
        found = decode_grant(_text(data))
    except DocumentUnreadable:
        return
    assert decode_grant(found.encode()) == found


def _entry(kind: str, key: str, data: bytes) -> Document | None:
    """A value with a checksum that fits, or as it is."""
    try:
        body = parse(data)
    except ValueError:
        body = None
    if isinstance(body, dict):
        try:
            return Document("d", {key: codec.encode(kind, 1, body)}, None, {}, "1")
        except (TypeError, ValueError):
            return None
    return Document("d", {key: _text(data)}, None, {}, "1")


def job(data: bytes) -> None:
    document = _entry("job", ENTRY, data)
    try:
        found = None if document is None else Job.of(document)
    except DocumentUnreadable:
        return
    assert found is None or isinstance(found.status, Status)


def run(data: bytes) -> None:
    document = _entry("run", "run", data)
    try:
        found = None if document is None else Runs.of(document)
    except DocumentUnreadable:
        return
    assert found is None or Runs.of(Document("d", {"run": found.encode()}, None, {}, "1")) == found


def claim(data: bytes) -> None:
    document = _entry("claim", "claim", data)
    try:
        found = None if document is None else standing_claim(document)
    except DocumentUnreadable:
        return
    assert document is None or found is not None


def replica(data: bytes) -> None:
    document = _entry("replica", "replica.h", data)
    try:
        found = None if document is None else Replica.decode(document.entries["replica.h"])
    except DocumentUnreadable:
        return
    assert found is None or isinstance(found.rehearsed, bool)


def component(data: bytes) -> None:
    document = _entry("component", "component.endpoint", data)
    found = Components() if document is None else Components.of(document)
    again = {name: text for name, text in found.entries(Components()).items() if text is not None}
    assert Components.of(Document("d", again, None, {}, "1")) == found


def submissions(data: bytes) -> None:
    document = _entry("submitted", "submitted", data)
    found = Submissions() if document is None else Submissions.of(document)
    again = {name: text for name, text in found.entries(Submissions()).items() if text is not None}
    assert not found.readable or Submissions.of(Document("d", again, None, {}, "1")) == found


def manifest(data: bytes) -> None:
    try:
        found = Manifest.decode(data, "there")
    except DocumentUnreadable:
        return
    assert Manifest.decode(found.encode(), "there") == found
    assert all(Path("/below", each.name).parent == Path("/below") for each in found.files)


def moved(data: bytes) -> None:
    document = _entry("moved", "moved", data)
    try:
        found = Moved.of(document)
    except DocumentUnreadable:
        return
    assert found is None or Moved.of(Document("d", {"moved": found.encode()}, None, {}, "1")) == found
    assert found is None or found.state in {*State}


def message(data: bytes) -> None:
    try:
        found = messages.decode(data)
    except EnvironmentProblem:
        return
    assert messages.decode(messages.encode(found)) == found


def kubernetes(shape: Shape, stored: dict[str, Any]) -> Document | str | None:
    """As every answer of the API server is read; the revision of what cannot be: its rightful holder has to be able to replace it."""
    store = KubernetesDocumentStore(None, shape)  # type: ignore[arg-type] # reading needs no server
    try:
        return store._document("lock", stored)
    except DocumentUnreadable as error:
        return error.revision


def is_no_free_lock(shape: Shape, stored: dict[str, Any]) -> bool:
    """Nothing in ``stored`` is a release of ours, so none of it may look like one."""
    found = kubernetes(shape, stored)
    return not isinstance(lock_state_of(found), Free) if isinstance(found, Document) else found in {None, "u/7"}


METADATA = {"uid": "u", "resourceVersion": "7"}


def annotation(data: bytes) -> None:
    assert is_no_free_lock(
        ConfigMapShape(), {"metadata": {**METADATA, "annotations": {LEADER_ANNOTATION: _text(data)}}}
    )


def lease(data: bytes) -> None:
    try:
        spec = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(spec, dict):  # what else it may be, the API server does not let through
        assert is_no_free_lock(LeaseShape(), {"metadata": {**METADATA, "annotations": {}}, "spec": spec})


def root_claim(data: bytes) -> None:
    try:
        found = claim_json.decode(data)
    except DocumentUnreadable:
        return
    assert claim_json.decode(codec.canonical(found.to_body()).encode()) == found


def gate(data: bytes) -> None:
    found = gate_page.decode(data)
    assert found is None or gate_page.decode(gate_page.encode(found, 2)) == found


def counters(data: bytes) -> None:
    found = counters_page.decode(data[:PAGE].ljust(PAGE, b"\0"))
    assert found is None or found.first is None or found.first.token > 0


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        stored_document,
        grant,
        job,
        run,
        claim,
        replica,
        component,
        submissions,
        manifest,
        moved,
        message,
        annotation,
        lease,
        root_claim,
        gate,
        counters,
    )
}

SEEDS: dict[str, bytes] = {
    "stored_document": record.dump("lock", Record({GRANT: _GRANT.encode()}, LeaderRecord("", 1.0, "", "", 3))),
    "grant": _GRANT.encode().encode(),
    "job": codec.canonical(JOB.body()).encode(),
    "run": codec.canonical(codec.decode("run", RUNS.encode())[1]).encode(),
    "claim": codec.canonical(CLAIM.to_body()).encode(),
    "replica": codec.canonical(asdict(REPLICA)).encode(),
    "component": codec.canonical({"token": int(Token(3, 0)), "holder": "h", "address": "10.0.0.1:8080"}).encode(),
    "submissions": codec.canonical(
        {"last": 2, "current": asdict(Submission(2, "a" * 64, "job.py", "anna", 1.5))}
    ).encode(),
    "manifest": MANIFEST.encode(),
    "moved": codec.canonical(asdict(Moved(State.HERE, "m", "there", "here", "s3", 7, {"file": 7}, 1.0))).encode(),
    "message": messages.encode(Granted(int(Token(3, 2)))),
    "annotation": ConfigMapShape().patch(_CONTENT)["metadata"]["annotations"][LEADER_ANNOTATION].encode(),
    "lease": json.dumps(LeaseShape().patch(_CONTENT)["spec"]).encode(),
    "root_claim": codec.canonical(CLAIM.to_body()).encode(),
    "gate": gate_page.encode(gate_page.View(gate_page.State.OPEN, Token(3, 2)), 2),
    "counters": counters_page.encode(COUNTS)[:160],
}
