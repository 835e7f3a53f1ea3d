"""Documents as Kubernetes objects: ConfigMaps, and Leases for locks.

Compare-and-set is a merge patch that carries ``uid`` and ``resourceVersion`` of what was seen: the server refuses it when either
has changed, so an object that was deleted and made again is another one. Only keys of ours are named in it; what others put
into the object stays. Reads name no resourceVersion, which makes the server ask its quorum.

A ConfigMap holds entries in ``data`` and the leader record as client-go's resource lock wrote it, in an annotation. A Lease
holds the record in ``spec``, as client-go writes it now, and entries in annotations.

An object that exists, holds nothing and was never written by us is *bare*: it was created in advance, so that we need
no permission to create. It counts as a document that is missing. One that we wrote and that lost its content since is
not bare, but emptied.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from understudy.documents.api_server import Answer, ApiServer, Json, forbidden, not_of_the_object
from understudy.documents.model import (
    Conflict,
    Content,
    Document,
    LeaderRecord,
    Outcome,
    Unknown,
    Written,
    check_name,
    conflict,
    merged,
)
from understudy.documents.size import SizeCheck
from understudy.errors import DocumentError, DocumentTooLarge, DocumentUnreadable, ServerUnreachable
from understudy.events import Log
from understudy.protocol.names import BURIED, LEADER_ANNOTATION, NONCE_ANNOTATION, PREFIX

_REMEDY = "It is taken for neither free nor absent; its rightful holder may replace it, an operator may restore it"


class Shape(Protocol):
    """How a document looks as an object."""

    @property
    def resource(self) -> str: ...

    @property
    def group(self) -> str:
        """As ``coordination.k8s.io/v1``; empty for the core."""
        ...

    def patch(self, content: Content) -> Json:
        """The part of a merge patch that writes ``content``: keys of ours, ``None`` for those to remove."""
        ...

    def entries(self, stored: Json) -> dict[str, str]: ...

    def has_leader(self, stored: Json) -> bool: ...

    def leader(self, stored: Json) -> LeaderRecord | None:
        """Raises various errors if the record cannot be parsed; ``_document`` makes one error of them."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigMapShape:
    resource: str = "configmaps"
    group: str = ""

    def patch(self, content: Content) -> Json:
        record = None if content.leader is None else json.dumps(_client_go(content.leader), separators=(",", ":"))
        return {"metadata": {"annotations": {LEADER_ANNOTATION: record}}, "data": dict(content.entries)}

    def entries(self, stored: Json) -> dict[str, str]:
        return dict(stored.get("data") or {})

    def has_leader(self, stored: Json) -> bool:
        return LEADER_ANNOTATION in (stored["metadata"].get("annotations") or {})

    def leader(self, stored: Json) -> LeaderRecord | None:
        text = (stored["metadata"].get("annotations") or {}).get(LEADER_ANNOTATION)
        if text is None:
            return None
        record = json.loads(text)
        return LeaderRecord(
            str(record.get("holderIdentity") or ""),
            _number(record["leaseDurationSeconds"]),
            str(record.get("acquireTime") or ""),
            str(record.get("renewTime") or ""),
            int(record.get("leaderTransitions") or 0),
        )


@dataclass(frozen=True, slots=True)
class LeaseShape:
    resource: str = "leases"
    group: str = "coordination.k8s.io/v1"

    def patch(self, content: Content) -> Json:
        leader = content.leader
        spec: Json = dict.fromkeys(
            ("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions")
        )
        if leader is not None:
            spec = {**_client_go(leader), "leaseTransitions": leader.transitions}
            del spec["leaderTransitions"]
        annotations = {PREFIX + key: value for key, value in content.entries.items()}
        return {"metadata": {"annotations": annotations}, "spec": spec}

    def entries(self, stored: Json) -> dict[str, str]:
        annotations = stored["metadata"].get("annotations") or {}
        return {
            key.removeprefix(PREFIX): text
            for key, text in annotations.items()
            if key.startswith(PREFIX) and key != NONCE_ANNOTATION
        }

    def has_leader(self, stored: Json) -> bool:
        return bool(stored.get("spec"))

    def leader(self, stored: Json) -> LeaderRecord | None:
        spec = stored.get("spec") or {}
        if "leaseDurationSeconds" not in spec:
            return None
        return LeaderRecord(
            str(spec.get("holderIdentity") or ""),
            _number(spec["leaseDurationSeconds"]),
            str(spec.get("acquireTime") or ""),
            str(spec.get("renewTime") or ""),
            int(spec.get("leaseTransitions") or 0),
        )


class KubernetesDocumentStore:
    """A ``DocumentStore`` of the objects of one shape in the API server's namespace."""

    def __init__(self, api: ApiServer, shape: Shape | None = None, *, log: Log | None = None) -> None:
        self._api = api
        self._shape: Shape = shape or ConfigMapShape()
        self._size = SizeCheck(log)

    async def read(self, name: str) -> Document | None:
        answer = await self._get(check_name(name))
        return self._document(name, answer.body) if answer.status == 200 else None

    async def is_there(self, name: str) -> bool:
        """Whether there is such an object, be it one that was made for us and never written. Raises what ``read`` raises."""
        return (await self._get(check_name(name))).status == 200

    async def names(self, selector: str) -> list[str]:
        """Names of the objects with these labels, in order. Raises ``AccessDenied`` and ``ServerUnreachable``."""
        answer = await self._get("", selector)
        return sorted(str(each["metadata"]["name"]) for each in answer.body.get("items", []))

    async def create(self, name: str, content: Content) -> Outcome:
        self._check_size(check_name(name), {}, content)
        body = _without_nones(self._shape.patch(content))
        body["metadata"]["labels"] = {key: text for key, text in content.labels.items() if text is not None}
        try:
            answer = await self._api.request("GET", self._path(name))
        except OSError as error:
            return Unknown(f"{name}: no answer from the API server: {_said(error)}")
        match answer.status:
            case 200 if self._bare(answer.body):
                metadata = answer.body["metadata"]
                body["metadata"] |= {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
                return await self._write(name, "patch", "PATCH", self._path(name), body, patch="merge")
            case 200:
                return Conflict(self._document(name, answer.body))
            case 404:
                body["metadata"]["name"] = name
                return await self._write(name, "create", "POST", self._path(), body, patch="")
            case _:
                raise self._refusal(answer, "get", name)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        self._check_size(check_name(seen.name), seen.entries, content)
        body = self._shape.patch(content)
        # a write on a tombstone makes it a document again
        return await self._patch(
            seen, {**body, "metadata": {**body["metadata"], "labels": {BURIED: None, **content.labels}}}
        )

    async def bury(self, seen: Document) -> Outcome:
        return await self._patch(seen, {"metadata": {"labels": {BURIED: "true"}}})

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        """The document now and after changes. Ends when the server ends the watch; raises what ``read`` raises."""
        document = await self.read(name)
        yield document
        query = {"fieldSelector": f"metadata.name={name}"}
        if document is not None:
            query["resourceVersion"] = document.revision.partition("/")[2]
        try:
            async for event in self._api.watch(self._path(), **query):
                if event["type"] in ("ADDED", "MODIFIED"):
                    yield self._document(name, event["object"])
                elif event["type"] == "DELETED":
                    yield None
        except OSError as error:
            raise DocumentError(f"the watch broke: {_said(error)}", where=name) from error

    async def _get(self, name: str, selector: str = "") -> Answer:
        """200 or 404; without a name a list. Raises ``AccessDenied``, ``ServerUnreachable``, and ``DocumentError`` for what else is said."""
        try:
            chosen = {"labelSelector": selector} if selector else {}
            answer = await self._api.request("GET", self._path(name), None, **chosen)
        except OSError as error:  # TimeoutError is one, too
            raise ServerUnreachable(
                f"the API server does not answer: {_said(error)}",
                where=name or self._api.namespace,
                remedy="Is it reachable from here?",
            ) from error
        if answer.status not in {200, 404}:
            raise self._refusal(answer, "get" if name else "list", name)
        expected = _is_object(answer.body) if name else "items" in answer.body
        if not (expected if answer.status == 200 else answer.body.get("kind") == "Status"):
            raise ServerUnreachable(
                f"what answers is no API server: {answer.reason}",
                where=name or self._api.namespace,
                remedy="Is there a proxy between?",
            )
        return answer

    async def _patch(self, seen: Document, body: Json) -> Outcome:
        uid, _, version = seen.revision.partition("/")
        body["metadata"] |= {"uid": uid, "resourceVersion": version}
        return await self._write(seen.name, "patch", "PATCH", self._path(seen.name), body, patch="merge")

    async def _write(self, name: str, verb: str, method: str, path: str, body: Json, patch: str) -> Outcome:
        body["metadata"].setdefault("annotations", {})[NONCE_ANNOTATION] = uuid.uuid4().hex
        try:
            answer = await self._api.request(method, path, body, patch=patch)
        except OSError as error:
            return Unknown(f"{name}: no answer from the API server: {_said(error)}")
        match answer.status:
            case 200 | 201 if not _is_object(answer.body):
                return Unknown(f"{name}: what answers is no API server: {answer.reason}")
            case 200 | 201:
                document = self._document(name, answer.body)
                assert document is not None, "it carries our nonce"
                return Written(document)
            case 409 | 404:
                return await conflict(self, name)
            case 413 | 422 if "too large" in answer.reason.lower() or "too long" in answer.reason.lower():
                raise DocumentTooLarge(
                    answer.reason, where=name, remedy="Keep pointers in documents, and data elsewhere"
                )
            case status if status >= 500:
                return Unknown(f"{name}: {answer.reason}")
            case _:
                raise self._refusal(answer, verb, name)

    def _bare(self, stored: Json) -> bool:
        annotations = stored["metadata"].get("annotations") or {}
        return (
            NONCE_ANNOTATION not in annotations
            and not self._shape.entries(stored)
            and not self._shape.has_leader(stored)
        )

    def _document(self, name: str, stored: Json) -> Document | None:
        if self._bare(stored):
            return None
        metadata = stored["metadata"]
        revision = f"{metadata['uid']}/{metadata['resourceVersion']}"
        try:
            leader = self._shape.leader(stored)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise DocumentUnreadable(
                f"the leader record cannot be understood: {error!r}", where=name, remedy=_REMEDY, revision=revision
            ) from error
        labels: Mapping[str, str] = metadata.get("labels") or {}
        entries = self._shape.entries(stored)
        return Document(name, MappingProxyType(entries), leader, MappingProxyType(dict(labels)), revision)

    def _path(self, name: str = "") -> str:
        return self._api.path(self._shape.resource, name, self._shape.group)

    def _check_size(self, name: str, entries: Mapping[str, str], content: Content) -> None:
        new = merged(entries, content.entries)
        self._size.check(name, sum(len(key.encode()) + len(value.encode()) for key, value in new.items()))

    def _refusal(self, answer: Answer, verb: str, name: str) -> DocumentError:
        if answer.status == 403:
            return forbidden(answer, verb, self._shape.resource, self._api.namespace, name)
        if (error := not_of_the_object(answer, name or self._api.namespace)) is not None:
            return error
        return DocumentError(answer.reason, where=name, remedy="Look at the API server and at the object")


def _is_object(body: Json) -> bool:
    """An object as it is stored. A proxy's page is none, also where its status is 200."""
    metadata = body.get("metadata")
    return isinstance(metadata, dict) and {"uid", "resourceVersion"} <= metadata.keys()


def _client_go(leader: LeaderRecord) -> Json:
    return {
        "holderIdentity": leader.holder,
        "leaseDurationSeconds": math.ceil(leader.lease_seconds),
        "acquireTime": leader.acquired,
        "renewTime": leader.renewed,
        "leaderTransitions": leader.transitions,
    }


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        message = f"leaseDurationSeconds is {value!r}"
        raise TypeError(message)
    return float(value)


def _without_nones(value: Json) -> Json:
    return {
        key: _without_nones(item) if isinstance(item, dict) else item for key, item in value.items() if item is not None
    }


def _said(error: OSError) -> str:
    return str(error) or type(error).__name__
