"""Reading a document gives what was written or ``DocumentUnreadable``: never a crash, never "nothing there"."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.fuzz.targets import CLAIM, JOB, METADATA, REPLICA, is_no_free_lock, kubernetes, message
from understudy.documents import codec
from understudy.documents.kubernetes import ConfigMapShape, LeaseShape
from understudy.documents.model import Content, Document
from understudy.election.records import Free, lock_state_of
from understudy.errors import DocumentUnreadable
from understudy.fencing.claim import standing_claim
from understudy.ha.job import ENTRY, Job, Status
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.protocol.names import LEADER_ANNOTATION

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def amiss(body: dict[str, object]) -> st.SearchStrategy[dict[str, object]]:
    """``body`` with some of its fields gone, some with another value, and some that are not ours."""
    return st.builds(
        lambda gone, other, more: {**more, **{key: (body | other)[key] for key in body if key not in gone}},
        st.sets(st.sampled_from(sorted(body)), max_size=2),
        st.dictionaries(st.sampled_from(sorted(body)), ANYTHING, max_size=2),
        st.dictionaries(st.text(max_size=4), ANYTHING, max_size=1),
    )


def document(entry: str, kind: str, body: dict[str, object]) -> Document:
    return Document("d", {entry: codec.encode(kind, 1, body)}, None, {}, "7")


@given(amiss(JOB.body()))
def test_a_job_is_whole_or_unreadable(body: dict[str, object]) -> None:
    try:
        job = Job.of(document(ENTRY, "job", body))
    except DocumentUnreadable:
        return
    assert isinstance(job.status, Status)
    assert Job.of(document(ENTRY, "job", job.body())) == job


@given(amiss(CLAIM.to_body()))
def test_a_claim_is_whole_or_unreadable(body: dict[str, object]) -> None:
    try:
        found = standing_claim(document("claim", "claim", body))
    except DocumentUnreadable:
        return
    assert found is not None
    assert found.to_body().items() <= body.items()


@given(amiss(asdict(REPLICA)))
def test_an_entry_of_a_replica_that_cannot_be_read_is_left_out_and_nothing_else(body: dict[str, object]) -> None:
    async def read() -> list[Replica]:
        store = MemoryDocumentStore(MemoryServer())
        entries = {
            "replica.h": codec.encode("replica", 1, body),
            "replica.g": codec.encode("replica", 1, asdict(REPLICA)),
        }
        await store.create("replicas", Content(entries))
        return await ReplicaStore(store, "replicas").read()

    found = asyncio.run(read())
    assert REPLICA in found
    assert all(type(each.generation) is int and type(each.rehearsed) is bool for each in found)
    assert max(found, key=lambda each: (each.generation, each.rounds, each.rehearsed_at)) in found


def test_entries_of_older_and_newer_images_are_read() -> None:
    """One does not say how many queries it knows, and the other says something unknown."""
    body = asdict(replace(REPLICA, queries=3))
    older = {name: value for name, value in body.items() if name != "queries"}
    assert Replica.decode(codec.encode("replica", 1, older)) == replace(REPLICA, queries=0)
    assert Replica.decode(codec.encode("replica", 1, body | {"later": [1]})) == replace(REPLICA, queries=3)


@given(amiss({"job": "flights"}))
def test_a_cluster_bound_to_something_unreadable_is_bound_to_nothing_else(body: dict[str, object]) -> None:
    async def ask() -> str | None:
        store = MemoryDocumentStore(MemoryServer())
        await store.create("replicas", Content({"cluster": codec.encode("cluster", 1, body)}))
        return await ReplicaStore(store, "replicas").job()

    try:
        assert asyncio.run(ask()) == body["job"]
    except DocumentUnreadable:
        assert not isinstance(body.get("job"), str)


@given(
    st.binary() | st.text().map(str.encode) | ANYTHING.map(lambda value: codec.canonical({"message": value}).encode())
)
def test_a_line_of_a_driver_is_a_message_or_refused(line: bytes) -> None:
    message(line)


@pytest.mark.parametrize("text", ["", " ", "{", "null", "[]", '"job"', '{"kind": "job"}'])
def test_text_that_is_no_job_is_unreadable_and_not_a_new_job(text: str) -> None:
    with pytest.raises(DocumentUnreadable):
        Job.of(Document("d", {ENTRY: text}, None, {}, "7"))


RECORD = {
    "holderIdentity": "h",
    "leaseDurationSeconds": 15,
    "acquireTime": "then",
    "renewTime": "then",
    "leaderTransitions": 3,
}


@given(st.text() | (ANYTHING | amiss(RECORD)).map(json.dumps) | st.just('{"leaseDurationSeconds": 1e999}'))
def test_an_annotation_is_a_leader_record_or_unreadable(text: str) -> None:
    found = kubernetes(ConfigMapShape(), {"metadata": {**METADATA, "annotations": {LEADER_ANNOTATION: text}}})
    if isinstance(found, Document):
        assert found.leader is not None
        assert not isinstance(lock_state_of(found), Free)
    else:
        assert found == "u/7"


@given(ANYTHING.filter(lambda value: isinstance(value, dict)) | amiss({**RECORD, "leaseTransitions": 3}))
def test_a_lease_is_a_leader_record_or_unreadable(spec: Any) -> None:
    assert is_no_free_lock(LeaseShape(), {"metadata": {**METADATA, "annotations": {}}, "spec": spec})
