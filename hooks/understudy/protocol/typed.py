"""Builds a dataclass from a JSON object, with the type of every field checked.

What messages and specifications need, and no more: fields are str, bool, int, float, a Literal of texts, a list or dict of those with
str keys, or another such dataclass. Types are exact, as JSON means them: true is no number, and a whole number is a float too. A field
that is unknown is refused. Decision 41 says why this is no library.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def build(kind: type[T], body: Mapping[str, object]) -> T:
    """Make a ``kind`` of ``body``. Raises ``ValueError`` that names the field which is missing, unknown or of another type."""
    annotations, required = _declared(cast("Hashable", kind))
    for name in required:
        if name not in body:
            raise ValueError(f"{kind.__name__} lacks {name}")
    for name, value in body.items():
        if name not in annotations:
            raise ValueError(f"{kind.__name__} has no field {name}")
        if not _fits(value, annotations[name]):
            raise ValueError(f"{kind.__name__}.{name} is {_named(annotations[name])}, not {_json_type(value)}")
    return kind(**{name: _value(value, annotations[name]) for name, value in body.items()})


def build_known(kind: type[T], body: Mapping[str, object]) -> T:
    """As ``build``, of what an older or a newer release may have written: fields that are unknown are left out."""
    annotations, _ = _declared(cast("Hashable", kind))
    return build(kind, {name: body[name] for name in annotations if name in body})


def _value(value: Any, annotation: Any) -> Any:
    if isinstance(annotation, type) and is_dataclass(annotation):
        return build(annotation, value)
    if get_origin(annotation) is list and is_dataclass(item := get_args(annotation)[0]):
        return [build(cast("type[Any]", item), each) for each in value]
    return value


@cache
def _declared(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The annotations of all fields, and the names of those without a default."""
    hints = get_type_hints(kind)
    declared = fields(kind)
    optional = {item.name for item in declared if item.default is not MISSING or item.default_factory is not MISSING}
    return {item.name: hints[item.name] for item in declared}, tuple(
        item.name for item in declared if item.name not in optional
    )


def _fits(value: object, annotation: Any) -> bool:
    if is_dataclass(annotation):
        return isinstance(value, dict)
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    if get_origin(annotation) is list:
        (item,) = get_args(annotation)
        return isinstance(value, list) and all(_fits(each, item) for each in value)
    if get_origin(annotation) is dict:
        _, item = get_args(annotation)  # JSON's keys are texts
        return isinstance(value, dict) and all(_fits(each, item) for each in value.values())
    return type(value) is annotation or (annotation is float and type(value) is int)


def _named(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(get_args(annotation))}"
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


def _json_type(value: object) -> str:
    return "null" if value is None else type(value).__name__
