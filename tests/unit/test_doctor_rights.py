"""Rights, verb by verb: each one that is missing is named, and as whom it was asked. Against a server that authorizes as RBAC does."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio import client

from infra.manifests import access
from infra.settings import settings_from
from tests.unit.answering import serving
from tests.unit.doctor_builders import SOUND, grave
from understudy.doctor.examination import Here, Report, Subject, examine
from understudy.doctor.finding import Finding, Severity
from understudy.doctor.rights import Right, needed
from understudy.documents.api_server import ApiServer, _MountedToken
from understudy.documents.kubernetes import KubernetesDocumentStore, LeaseShape
from understudy.errors import AccessDenied
from understudy.protocol.names import Names

Rule = tuple[str, str, str, str]  # verb, group, resource, name
NAMES = Names("flights", "flights")
ACCOUNT = "system:serviceaccount:tests:flights"


def given_by_the_bundle(*, native: bool = False) -> set[Rule]:
    keys = {"clusterId": "flights", "namespace": "tests", "image": "i", "script": "/app/j.py", "bucket": "buckets"}
    settings = settings_from({**keys, "mode": "native" if native else "application"})
    rules = [rule for each in access.access(settings) if each["kind"] == "Role" for rule in each["rules"]]
    return {
        (verb, group, resource, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def as_rule(right: Right) -> Rule:
    return right.verb, right.group, right.resource, right.name


@pytest.mark.parametrize("native", [False, True])
def test_what_is_needed_is_what_the_bundle_gives(native: bool) -> None:
    """The bundle gives the rights of every kind of lock."""
    assert {as_rule(each) for each in needed(NAMES, "multi", native=native)} == given_by_the_bundle(native=native)


@pytest.mark.parametrize(("kind", "resources"), [("lease", {"leases"}), ("configmap", {"configmaps"})])
def test_of_a_lock_only_its_own_kind_is_needed(kind: str, resources: set[str]) -> None:
    rights = needed(NAMES, kind, native=False)
    assert {each.resource for each in rights if each.name == "flights-lock"} == resources


class Cluster:
    """An API server with two bare documents, two pods and a Role; ``knows_itself``: it says as whom it is asked."""

    def __init__(
        self, allowed: Collection[Rule], *, reviews: bool = True, reads: bool = True, native: bool = False
    ) -> None:
        self.allowed = set(allowed)
        self.reviews, self.reads = reviews, reads
        self.asked: list[dict[str, Any]] = []
        args = (
            ["run", "--master", "k8s://https://kubernetes.default.svc", "/app/j.py"] if native else ["run", "/app/j.py"]
        )
        self.pods = [
            {
                "metadata": {"uid": f"u{number}", "name": f"flights-{number}"},
                "spec": {"serviceAccountName": "flights", "nodeName": "n1", "containers": [{"args": args}]},
            }
            for number in (1, 2)
        ]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        what = request.path.rpartition("/")[2]
        if what == "selfsubjectreviews":
            return web.json_response({"status": {"userInfo": {"username": ACCOUNT}}}, status=201)
        if what in {"selfsubjectaccessreviews", "localsubjectaccessreviews"}:
            return self._review(what, await request.json())
        if what == "pods" and self.reads:
            return web.json_response({"items": self.pods})
        if request.path.endswith(("configmaps/flights-replicas", "configmaps/flights-flights")) and self.reads:
            return web.json_response({"metadata": {"name": what, "uid": "1", "resourceVersion": "1"}})
        if not self.reads:
            return self._forbidden(f'{what} is forbidden: User "ann" cannot get resource')
        return web.json_response({"kind": "Status", "reason": "NotFound", "message": "not found"}, status=404)

    def _review(self, kind: str, body: dict[str, Any]) -> web.Response:
        self.asked.append(body)
        if kind == "localsubjectaccessreviews" and not self.reviews:
            return self._forbidden('localsubjectaccessreviews is forbidden: User "ann" cannot create resource')
        asked = body["spec"]["resourceAttributes"]
        rule = asked["verb"], asked["group"], asked["resource"], asked.get("name", "")
        of_the_account = body["spec"].get("user", ACCOUNT) == ACCOUNT and asked["namespace"] == "tests"
        status = {"allowed": of_the_account and rule in self.allowed}
        return web.json_response({"status": status}, status=201)

    @staticmethod
    def _forbidden(message: str) -> web.Response:
        return web.json_response({"reason": "Forbidden", "message": message}, status=403)

    def examined(self, token: Path | None) -> list[Finding]:
        """From a pod if it has a token."""

        async def run() -> Report:
            async with serving(self.answer) as url:
                mounted = None if token is None else _MountedToken(token)
                async with ApiServer(client.Configuration(host=url), "tests", 5.0, mounted) as api:
                    documents, locks = KubernetesDocumentStore(api), KubernetesDocumentStore(api, LeaseShape())
                    here = Here(local=api.in_pod, pod=api.in_pod, machine=lambda: SOUND)
                    return await examine(Subject("flights", "", documents, locks, "lease", here, api=api, pause=0.01))

        return asyncio.run(run()).findings


@pytest.fixture(params=["in a pod", "from outside"])
def token(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    if request.param == "from outside":
        return None
    (tmp_path / "token").write_text("t")
    return tmp_path / "token"


def test_a_role_that_is_complete(token: Path | None) -> None:
    found = Cluster(given_by_the_bundle()).examined(token)

    assert grave(found) == []
    (rights,) = (each for each in found if each.check == "rights")
    assert rights.text == "service account tests/flights has each of the 18 rights that a replica needs"


@pytest.mark.parametrize("right", needed(NAMES, "lease", native=False), ids=lambda each: "-".join(as_rule(each)))
def test_each_right_that_is_missing_is_named_and_no_other(tmp_path: Path, right: Right) -> None:
    (tmp_path / "token").write_text("t")
    found = Cluster(given_by_the_bundle() - {as_rule(right)}).examined(tmp_path / "token")

    (missing,) = (each for each in found if each.check == "rights")
    what = f"{right.resource}.{right.group}" if right.group else right.resource
    assert missing.text.startswith(f"service account tests/flights may not {right.verb} {what} ")
    assert missing.text.endswith(right.without)
    named = f" with resourceNames [{right.name}]" if right.name else ""
    assert missing.remedy == f"Add {right.verb} on {what}{named} to the HA Role of namespace tests"
    assert missing.severity is right.severity
    assert missing.exit_code == (AccessDenied.exit_code if right.severity is Severity.PROBLEM else 0)


def test_from_outside_the_pods_account_is_asked_about_and_not_who_asks() -> None:
    cluster = Cluster(given_by_the_bundle() - {("patch", "", "configmaps", "flights-flights")})

    (missing,) = grave(cluster.examined(None))

    assert "service account tests/flights may not patch configmaps tests/flights-flights" in missing.text
    assert {each["spec"]["user"] for each in cluster.asked} == {ACCOUNT}
    assert all("system:serviceaccounts:tests" in each["spec"]["groups"] for each in cluster.asked)


def test_from_outside_without_the_right_to_ask_nothing_is_concluded() -> None:
    found = Cluster(set(), reviews=False).examined(None)

    assert grave(found) == []
    (rights,) = (each for each in found if each.check == "rights")
    assert rights.severity is Severity.NOTE
    assert "was not asked: user ann may not create localsubjectaccessreviews" in rights.text
    assert "kubectl exec" in rights.remedy


def test_from_outside_without_pods_there_is_no_account_to_ask_about() -> None:
    cluster = Cluster(set())
    cluster.pods = []

    found = cluster.examined(None)

    assert grave(found) == []
    assert any("its service account is not known" in each.text for each in found)
    assert cluster.asked == []


def test_executors_that_are_pods_need_more(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    found = grave(Cluster(given_by_the_bundle(), native=True).examined(tmp_path / "token"))

    assert {each.text.split()[5] for each in found} == {"create", "patch", "delete", "deletecollection"}
    assert grave(Cluster(given_by_the_bundle(native=True), native=True).examined(tmp_path / "token")) == []


def test_what_may_not_be_read_is_said_and_rights_are_asked_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    found = Cluster(given_by_the_bundle() - {("get", "", "configmaps", "flights-replicas")}, reads=False).examined(
        tmp_path / "token"
    )

    texts = [each.text for each in grave(found)]
    assert any("may not get configmaps tests/flights-replicas" in each for each in texts)
    assert any(
        each.startswith("service account tests/flights may not get configmaps tests/flights-replicas") for each in texts
    )
    assert {each.exit_code for each in found if each.severity is Severity.PROBLEM} == {7}
