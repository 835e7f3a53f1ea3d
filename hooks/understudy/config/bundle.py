"""Keys of the bundle (Pulumi.yaml) that are options of ``understudy run``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.config.option import BundleKey, Group, Option, options_of
from understudy.config.tree import options

_TYPES = {str: "string", int: "integer", float: "string", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class Key:
    """One option as a key: what its ``BundleKey`` says, and what follows from the option."""

    option: Option
    said: BundleKey

    @property
    def name(self) -> str:
        first, *rest = self.option.name.split("_")
        return self.said.name or first + "".join(each.capitalize() for each in rest)

    @property
    def type(self) -> str:
        return self.said.type or ("string" if self.option.choices else _TYPES[self.option.type])

    @property
    def choices(self) -> tuple[str, ...]:
        return self.said.choices or self.option.choices

    @property
    def least(self) -> int | None:
        """Of an integer; ``None`` for other types."""
        declared = self.option.declared
        if self.type != "integer":
            return None
        return declared.at_least if declared.above is None else int(declared.above) + 1

    @property
    def default(self) -> Any:
        if self.said.default is not None:
            return self.said.default
        default = self.option.default
        if self.type == "integer":
            return int(default)
        return f"{default:g}" if isinstance(default, float) else default

    @property
    def description(self) -> str:
        """On one line, with what an empty text stands for. The bundle's own words are taken as they are."""
        declared = self.option.declared
        if self.said.meaning:
            return self.said.meaning
        empty = self.default == "" and declared.default_words and not self.said.required
        return f"{declared.meaning} Empty for {declared.default_words}." if empty else declared.meaning


def key_of(option: Option) -> Key | None:
    said = option.declared.bundle
    return None if said is None else Key(option, said)


def keys_of(group: type[Group]) -> list[Key]:
    return [key for each in options_of(group) if (key := key_of(each)) is not None]


def keys() -> dict[str, Key]:
    """Every key that comes from an option, by its name."""
    return {key.name: key for each in options() if (key := key_of(each)) is not None}
