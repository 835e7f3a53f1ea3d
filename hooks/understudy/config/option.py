"""What an option is. It is declared once, beside its field in ``tree``; this module reads the declarations.

From one declaration come the option of ``understudy run`` and its help, its environment variable, its key in the bundle, its line in
docs/options.md, and the check of its value. One name is spelled four ways: ``rehearse_rounds`` here, ``--rehearse-rounds``,
``UNDERSTUDY_REHEARSE_ROUNDS`` and ``rehearseRounds``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

from understudy.errors import SettingsError

VARIABLE_PREFIX = "UNDERSTUDY_"


class Unit(NamedTuple):
    """``words``: as an option's meaning has it. ``symbol``: as messages write it after a number; empty for none."""

    words: str
    symbol: str = ""

    @property
    def metavar(self) -> str:
        return f"<{self.words.partition(' ')[0]}>"


@dataclass(frozen=True, slots=True)
class BundleKey:
    """How the bundle takes an option; what is empty follows from the option itself.

    ``type``: Pulumi's name of a type; it has integers and no other numbers, so seconds are texts unless an integer will do.
    ``mode``: the only one of the bundle's modes in which replicas are given the option.
    """

    name: str = ""
    type: Literal["", "string", "integer", "boolean", "object"] = ""
    default: Any = None
    choices: tuple[str, ...] = ()
    meaning: str = ""
    required: bool = False
    mode: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """What ``Annotated`` adds to a field's type and default.

    ``meaning``: sentences for help and documentation, with the unit where there is one. ``name``: the option's, where it is not the
    group's prefix and the field's name. ``at_least``, ``at_most`` and ``above``: bounds of a number. ``default_words``: what holds where the
    default is empty. ``bundle``: ``None`` if the bundle has no key for it.
    """

    meaning: str
    unit: Unit | None = None
    name: str = ""
    at_least: int | None = None
    at_most: int | None = None
    above: float | None = None
    default_words: str = ""
    bundle: BundleKey | None = None


class Group:
    """Options that belong together: a frozen dataclass, each field of which is ``Annotated`` with ``Declared``.

    ``panel``: heading in help. ``prefix``: begins the name of each option. Construction checks every value.

    Raises:
        SettingsError: a value is out of its bounds; names the option and the remedy.
    """

    __slots__ = ()
    panel: ClassVar[str]
    prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            option.check(getattr(self, option.field))


@dataclass(frozen=True, slots=True)
class Option:
    """One declaration, read. ``type`` is the field's without ``None``; ``field`` its name in ``group``."""

    group: type[Group]
    field: str
    type: Any
    default: Any
    declared: Declared

    @property
    def name(self) -> str:
        prefix = self.group.prefix
        return self.declared.name or (f"{prefix}_{self.field}" if prefix else self.field)

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"{VARIABLE_PREFIX}{self.name.upper()}"

    @property
    def choices(self) -> tuple[str, ...]:
        """Every value there is; empty for a type that is no enumeration. An empty default is not one of them."""
        return tuple(each for each in get_args(self.type) if each) if get_origin(self.type) is Literal else ()

    def read(self, value: Any) -> Any:
        """What a command line hands over, as the field has it: several values are a list there, and none of them ``None``."""
        return tuple(value or ()) if get_origin(self.type) is tuple else value

    def check(self, value: Any) -> None:
        """Raise ``SettingsError`` for a value that is out of bounds."""
        declared, unit = self.declared, self.declared.unit
        if self.choices and value not in self.choices and value != self.default:
            remedy = f"Choose one of {', '.join(self.choices)}"
            raise SettingsError(f"unknown {self.field} {value!r}", where=self.flag, remedy=remedy)
        if declared.at_least is not None and value < declared.at_least:
            raise SettingsError(f"{value} is below {declared.at_least}", where=self.flag, remedy="Raise it")
        if declared.at_most is not None and value > declared.at_most:
            raise SettingsError(f"{value} is above {declared.at_most}", where=self.flag, remedy="Lower it")
        if declared.above is not None and not value > declared.above:
            shown = f"{value} {unit.symbol}" if unit and unit.symbol else str(value)
            raise SettingsError(f"{shown} is not above {declared.above:g}", where=self.flag, remedy="Raise it")

    def words(self, value: Any) -> list[str]:
        """The words of a command line that give this value."""
        if self.type is bool:
            return [self.flag] if value else []
        whole = isinstance(value, float) and value.is_integer()
        return [self.flag, str(int(value) if whole else value)]


def options_of(group: type[Group]) -> tuple[Option, ...]:
    """A group's declarations, read once."""
    return _options_of(cast("Hashable", group))


@cache
def _options_of(group: Any) -> tuple[Option, ...]:
    hints = get_type_hints(group, include_extras=True)
    return tuple(_read(group, each, hints[each.name]) for each in fields(group))


def _read(group: type[Group], field: Field[Any], hint: Any) -> Option:
    assert get_origin(hint) is Annotated, f"{group.__name__}.{field.name} is not declared"
    assert field.default is not MISSING, f"{group.__name__}.{field.name} has no default"
    kind, declared = get_args(hint)
    if NoneType in get_args(kind):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    return Option(group, field.name, kind, field.default, declared)
