"""The program run without the engine: Pulumi's own mocks, with a monitor that keeps every request as it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.stack import Stack

from infra.program import build
from infra.settings import settings_from
from testkit.bundle import LEAST
from testkit.pulumi_program import Echo, perform, plain


@dataclass(frozen=True, slots=True)
class Registered:
    """One request of the program. ``provider`` is its provider's name, ``parent`` its parent's type; ``after``: names of what it waits for."""

    type: str
    name: str
    inputs: Mapping[str, Any]
    parent: str
    provider: str
    protect: bool
    retain: bool
    ignore_changes: tuple[str, ...]
    aliases: tuple[str, ...]
    custom: bool
    secrets: tuple[str, ...]
    secret_outputs: tuple[str, ...]
    after: tuple[str, ...]
    replace_on_changes: tuple[str, ...]
    delete_before_replace: bool
    timeouts: tuple[str, str]  # of create and update; empty where the provider's hold

    @property
    def kind(self) -> str:
        return str(self.inputs.get("kind", self.type.rpartition(":")[2]))

    @property
    def object_name(self) -> str:
        return str(self.inputs["metadata"]["name"])


class Recorder(mocks.MockMonitor):
    def __init__(self) -> None:
        super().__init__(Echo())
        self.seen: list[Registered] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        if request.type != "pulumi:pulumi:Stack":
            inputs = rpc.deserialize_properties(request.object, keep_unknowns=True)
            self.seen.append(
                Registered(
                    type=request.type,
                    name=request.name,
                    inputs=plain(inputs),
                    parent=request.parent.split("::")[2].rpartition("$")[2] if request.parent else "",
                    provider=request.provider.split("::")[3] if request.provider else "",
                    protect=request.protect,
                    retain=request.retainOnDelete,
                    ignore_changes=tuple(request.ignoreChanges),
                    aliases=tuple(str(alias) for alias in request.aliases),
                    custom=request.custom,
                    secrets=tuple(sorted(_secrets("", inputs))),
                    secret_outputs=tuple(request.additionalSecretOutputs),
                    after=tuple(urn.rpartition("::")[2] for urn in request.dependencies),
                    replace_on_changes=tuple(request.replaceOnChanges),
                    delete_before_replace=request.deleteBeforeReplace,
                    timeouts=(request.customTimeouts.create, request.customTimeouts.update),
                )
            )
        return super().RegisterResource(request)


def record(**given: Any) -> list[Registered]:
    """What the program registers for these keys over the least that a stack says, in the order it asks."""
    settings = settings_from({**LEAST, **given})
    recorder = Recorder()
    perform(lambda: build(settings), recorder)
    return recorder.seen


def outputs(**given: Any) -> dict[str, Any]:
    """What the stack tells its user."""
    settings = settings_from({**LEAST, **given})
    found: dict[str, Any] = {}

    def program() -> None:
        build(settings)
        stack = pulumi.runtime.get_root_resource()
        assert isinstance(stack, Stack)
        found.update(stack.outputs)

    perform(program, Recorder())
    return found


def _secrets(at: str, value: Any) -> list[str]:
    if rpc.is_rpc_secret(value):
        return [at]
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in _secrets(f"{at}.{key}".lstrip("."), each)]
    return []
