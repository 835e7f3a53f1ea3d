"""The keys that Pulumi.yaml declares: one list, read by the program, by ``make render`` and by tests.

The engine fills in defaults and checks types; without the engine this module does. Entries of keys that are options of ``understudy
run`` are written into Pulumi.yaml from their declarations, in ``understudy.config.tree``; a test fails when one is out of date.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from understudy.config import bundle
from understudy.errors import SettingsError

NAMESPACE = "understudy:"
PROJECT = Path(__file__).resolve().parent.parent
_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    type: str
    default: Any
    description: str

    @property
    def secret(self) -> bool:
        """Not said in Pulumi.yaml: there the engine takes the empty default for a secret in plain text, and refuses the stack."""
        return self.name in {"bucketAccessKey", "bucketSecretKey"}


@cache
def keys() -> Mapping[str, Key]:
    declared = yaml.safe_load((PROJECT / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
    return {name: Key(name, fact["type"], fact["default"], fact["description"]) for name, fact in declared.items()}


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every declared key: as given, else its default. Raises ``SettingsError`` for a key or a type that is not declared."""
    for name, value in given.items():
        key = keys().get(name)
        if key is None:
            near = difflib.get_close_matches(name, keys(), n=1)
            remedy = f"Did you mean {near[0]}?" if near else "Pulumi.yaml lists them all"
            raise SettingsError("no such key", where=f"understudy:{name}", remedy=remedy)
        _check_type(key, value)
    return {name: given.get(name, key.default) for name, key in keys().items()}


def _check_type(key: Key, value: Any) -> None:
    wanted = _TYPES[key.type]
    fits = isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))
    if fits and key.type == "array":
        fits = all(isinstance(item, str) for item in value)
    if fits and key.type == "object":
        fits = all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in value.values())
    if not fits:
        shown = {"array": "a list of strings", "object": "names with a string or number each"}.get(key.type, key.type)
        raise SettingsError(
            "[secret]" if key.secret else f"{value!r} is no {shown}",
            where=f"understudy:{key.name}",
            remedy=f"For example {_EXAMPLES[key.type]}".replace("KEY", key.name),
        )


_EXAMPLES: Mapping[str, str] = {
    "string": "pulumi config set KEY text",
    "integer": "pulumi config set KEY 2",
    "boolean": "pulumi config set KEY true",
    "array": "pulumi config set --path 'KEY[0]' text",
    "object": "pulumi config set --path 'KEY[\"name\"]' text",
}


def json_schema() -> dict[str, Any]:
    """The form of a stack's file, for editors. Rules between keys are not in it: the program knows those."""
    properties = {f"{NAMESPACE}{name}": _property(key) for name, key in keys().items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A stack of Understudy's bundle (stacks/Pulumi.*.yaml)",
        "type": "object",
        "properties": {
            "config": {
                "type": "object",
                "properties": properties,
                "propertyNames": {"if": {"pattern": f"^{NAMESPACE}"}, "then": {"enum": list(properties)}},
            }
        },
    }


def _property(key: Key) -> dict[str, Any]:
    """``pulumi config set`` writes numbers and booleans as texts."""
    if key.secret:
        secure = {"type": "object", "properties": {"secure": {"type": "string"}}, "required": ["secure"]}
        return {"description": key.description, **secure, "additionalProperties": False}
    about: dict[str, Any] = {"description": key.description, "default": key.default}
    option = bundle.keys().get(key.name)
    match key.type:
        case "integer":
            least = {} if option is None or option.least is None else {"minimum": option.least}
            return {**about, "anyOf": [{"type": "integer", **least}, {"type": "string", "pattern": "^[0-9]+$"}]}
        case "boolean":
            return {**about, "enum": [True, False, "true", "false"]}
        case "array":
            return {**about, "type": "array", "items": {"type": "string"}}
        case "object":
            return {**about, "type": "object", "additionalProperties": {"type": ["string", "number"]}}
    if option is not None and option.choices:
        return {**about, "enum": list(dict.fromkeys([key.default, *option.choices]))}
    return {**about, "type": "string"}
