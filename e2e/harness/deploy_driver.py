"""A deploy driver for tests where Pulumi's engine is not installed. It is not the engine, and proves nothing about it.

It runs the same program through the SDK's own protocol, in this process, and does with each resource that is registered what the
program's options ask for: by server-side apply, under the program's field manager; adopting what is there only through a provider
that says so; comparing declared fields with the last ones; replacing what cannot be changed; leaving what is to be retained. What it
knows of a stack it writes down.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pulumi.runtime import mocks, rpc

from e2e.cluster.layout import Layout
from e2e.harness.helm import Helm, find_helm
from e2e.harness.kubectl import Cluster
from testkit.pulumi_program import Echo, perform, plain

_CHART = "kubernetes:helm.sh/v4:Chart"
_MANAGER = "pulumi.com/patchFieldManager"
#: Of a Job: one that has failed is made again.
_REPLACED = "pulumi.com/replaceUnready"
#: In place of a Job's end; ours ask for no more than that it is there.
_WAIT_FOR = "pulumi.com/waitFor"
#: Seconds for a Job, as the engine has them.
_JOB_PATIENCE = 600.0


class NotDone(Exception):
    """A resource that could not be made as the program asks, or a program that gave up."""


@dataclass(frozen=True, slots=True)
class Known:
    """A resource of the stack, as it was last declared. ``digest`` stands for what was declared: some of it is secret.

    ``needs``: URNs of what it depends on.
    """

    version: str
    kind: str
    namespace: str
    name: str
    digest: str
    retain: bool
    protect: bool
    needs: tuple[str, ...]

    @property
    def where(self) -> list[str]:
        group, _, version = self.version.rpartition("/")
        kind = f"{self.kind}.{version}.{group}" if group else self.kind
        return [kind, self.name, *(["--namespace", self.namespace] if self.namespace else [])]


class DeployDriver(mocks.MockMonitor):
    """One stack. ``state``: the file that remembers it."""

    def __init__(self, cluster: Cluster, state: Path) -> None:
        super().__init__(Echo())
        self._cluster = cluster
        self._path = state
        self._known: dict[str, Known] = {}
        self._seen: dict[str, Known] = {}
        self._upserting: set[str] = set()
        self._changed = 0
        self._refreshing = False

    def up(self, program: Callable[[], None], *, refresh: bool = False) -> int:
        """Make the cluster what the program declares; how many objects were made, changed or removed.

        ``refresh``: ask the cluster about every resource, unchanged or not.
        """
        self._seen, self._changed, self._refreshing = {}, 0, refresh
        perform(program, self)
        gone = {urn: known for urn, known in self._known.items() if urn not in self._seen}
        if refused := [f"{known.kind} {known.name}" for known in gone.values() if known.protect]:
            self._known = {**gone, **self._seen}
            self._save()
            raise NotDone(f"{', '.join(refused)}: cannot be deleted because it is protected")
        for known in reversed(gone.values()):
            self._remove(known)
        self._known = self._seen
        self._save()
        return self._changed

    def destroy(self) -> None:
        """Everything but what is retained, the last one first. Left is what is protected, with all that it needs (``--exclude-protected``)."""
        left = self._protected()
        for urn, known in reversed(list(self._known.items())):
            if urn not in left:
                self._remove(known)
                del self._known[urn]
        self._save()

    def _protected(self) -> set[str]:
        waiting = [urn for urn, known in self._known.items() if known.protect]
        found: set[str] = set()
        while waiting:
            if (urn := waiting.pop()) in self._known and urn not in found:
                found.add(urn)
                waiting += self._known[urn].needs
        return found

    # The protocol's side.

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        if request.type == "pulumi:providers:kubernetes":
            inputs = rpc.deserialize_properties(request.object)
            if json.loads(inputs.get("upsertExistingObjects", "false")):
                self._upserting.add(request.name)
        elif request.type == _CHART:
            self._install(request)
        elif request.custom:
            self._make(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]

    # The cluster's side.

    def _make(self, request: Any) -> None:
        inputs = plain(rpc.deserialize_properties(request.object))
        if request.type.startswith("kubernetes:") and "metadata" in inputs:
            urn = self.make_urn(request.parent, request.type, request.name)
            provider = request.provider.split("::")[3]
            if texts := inputs.pop("stringData", None):  # which the API server takes, and never shows
                inputs["data"] = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            self._apply(urn, inputs, upsert=provider in self._upserting, request=request)
        else:
            raise NotDone(f"{request.type}: this driver makes Kubernetes objects only")

    def _apply(self, urn: str, declared: Mapping[str, Any], *, upsert: bool, request: Any) -> None:
        metadata = declared["metadata"]
        compared = {key: value for key, value in declared.items() if key not in request.ignoreChanges}
        digest = hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()
        known = Known(
            declared["apiVersion"],
            declared["kind"],
            metadata.get("namespace", ""),
            metadata["name"],
            digest,
            retain=request.retainOnDelete,
            protect=request.protect,
            needs=tuple(request.dependencies),
        )
        self._seen[urn] = known
        before = self._known.get(urn)
        unready = before is not None and _REPLACED in metadata.get("annotations", {}) and self._failed(known)
        if before is not None and unready:
            self._replace(before, known)
            before = None
        if before is not None and before.digest == digest and not self._refreshing:
            return
        live = self._live(known)
        changed = live is not None and not contains(live.get("spec"), compared.get("spec"))
        if before is not None and changed and request.deleteBeforeReplace:  # what cannot be changed
            self._replace(before, known)
            before = live = None
        if before is None and live is not None and not upsert:
            raise NotDone(f"{known.kind} {known.name} is there already, and its provider does not adopt")
        manager = metadata.get("annotations", {}).get(
            _MANAGER, f"pulumi-{hashlib.sha256(urn.encode()).hexdigest()[:8]}"
        )
        options = ["--server-side", "--field-manager", manager, "--filename", "-"]
        if before is not None and live is not None:
            # what is ignored stays; what is made, or made again, is as declared
            ignored = declared.keys() - compared.keys()
            declared = {**compared, **{key: value for key, value in live.items() if key in ignored}}
        if before is None or not contains(live, compared):
            self._changed += 1
            self._cluster.kubectl("apply", *options, stdin=json.dumps(declared))
            if known.kind == "Job" and _WAIT_FOR not in metadata.get("annotations", {}):
                self._await_job(known)

    def _await_job(self, known: Known) -> None:
        """As the engine does: raises ``NotDone`` with what the Job's pod said last."""
        until = time.monotonic() + _JOB_PATIENCE
        while time.monotonic() < until and not self._failed(known):
            if "Complete" in self._conditions(known):
                return
            time.sleep(0.5)
        where = ["--namespace", known.namespace, "--selector", f"job-name={known.name}"]
        pods = json.loads(self._cluster.kubectl("get", "pods", *where, "--output", "json"))["items"]
        said = [
            each["state"].get("terminated", {}) for pod in pods for each in pod["status"].get("containerStatuses", [])
        ]
        raise NotDone(f"Job {known.name}: {[each.get('message', '') for each in said]}")

    def _failed(self, known: Known) -> bool:
        return "Failed" in self._conditions(known)

    def _conditions(self, known: Known) -> set[str]:
        conditions = (self._live(known) or {}).get("status", {}).get("conditions", [])
        return {each["type"] for each in conditions if each["status"] == "True"}

    def _live(self, known: Known) -> Any:
        found = self._cluster.kubectl("get", *known.where, "--ignore-not-found", "--output", "json")
        return json.loads(found) if found.strip() else None

    def _replace(self, before: Known, known: Known) -> None:
        if before.protect and known.protect:
            raise NotDone(f"{known.kind} {known.name}: cannot be replaced, because it is protected")
        self._remove(before)

    def _remove(self, known: Known) -> None:
        if not known.retain:
            self._changed += 1
            # As the engine deletes: a Deployment is gone when its pods are, or they would make their lock again.
            options = ["--ignore-not-found", "--cascade=foreground", "--timeout=120s"]
            self._cluster.kubectl("delete", *known.where, *options, timeout=150)

    def _install(self, request: Any) -> None:
        """A chart: each object that helm renders is one of the stack's."""
        inputs = plain(rpc.deserialize_properties(request.object))
        chart, namespace = Path(inputs["chart"]).name, inputs["namespace"]
        helm = Helm(find_helm(Layout.default()))
        objects = helm.template(chart, inputs.get("values", {}), release=request.name, namespace=namespace)
        for each in objects:
            each["metadata"].setdefault("namespace", namespace)
            name = f"{request.name}:{each['kind']}/{each['metadata']['name']}"
            self._apply(self.make_urn(request.parent, request.type, name), each, upsert=False, request=request)
        for each in objects:
            if each["kind"] == "StatefulSet":
                where = [f"statefulset/{each['metadata']['name']}", "--namespace", namespace]
                self._cluster.kubectl("rollout", "status", *where, "--timeout=120s", timeout=150)

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({urn: asdict(known) for urn, known in self._known.items()}, indent=1))


def contains(live: Any, declared: Any) -> bool:
    """Whether everything declared is there as declared, next to other content. What others wrote meanwhile is not compared."""
    if isinstance(declared, dict):
        return isinstance(live, dict) and all(contains(live.get(key), each) for key, each in declared.items())
    if isinstance(declared, list):
        return isinstance(live, list) and len(live) == len(declared) and all(map(contains, live, declared))
    return bool(live == declared) or (not live and not declared)
