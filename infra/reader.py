"""Reads the completed configuration key by key. A value that does not have its form is refused with the key and an example."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from infra.quantities import java_bytes, quantity
from understudy.config.bundle import Key, keys_of
from understudy.config.option import Group
from understudy.errors import SettingsError

G = TypeVar("G", bound=Group)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
#: The form of annotations' values: anything.
ANYTHING = re.compile(r".*", re.DOTALL)
#: The form of entries' names in ConfigMaps and Secrets.
ENTRY = re.compile(r"(?!\.\Z|\.\.)[-._a-zA-Z0-9]{1,253}")
#: ``understudy run`` reads these variables, and the builders set them.
_OURS = ("UNDERSTUDY_POD_UID", "UNDERSTUDY_POD_NAME", "UNDERSTUDY_POD_IP", "UNDERSTUDY_HA", "UNDERSTUDY_HA_ADDRESS")


@dataclass(frozen=True, slots=True)
class ConfigReader:
    values: Mapping[str, Any]

    def value(self, key: str) -> Any:
        return self.values[key]

    def text(self, key: str) -> str:
        return str(self.values[key]).strip()

    def needed(self, key: str, what: str, example: str) -> str:
        if not self.text(key):
            raise wrong(key, "", f"{what} is needed", example)
        return self.text(key)

    def one_of(self, key: str, choices: tuple[str, ...]) -> str:
        if self.text(key) not in choices:
            named = [each for each in choices if each]
            raise wrong(key, self.text(key), f"one of {', '.join(named)}", named[0])
        return self.text(key)

    def at_least(self, key: str, least: int) -> int:
        if self.value(key) < least:
            raise wrong(key, self.value(key), f"at least {least}", max(least, 2))
        return int(self.value(key))

    def seconds(self, key: str) -> float:
        if not re.fullmatch(r"\d{1,9}([.]\d{1,9})?", self.text(key)) or not float(self.text(key)) > 0:
            raise wrong(key, self.text(key), "seconds, above 0", "2.5")
        return float(self.text(key))

    def options(self, group: type[G]) -> G:
        """A group of options of ``understudy run``, each from its key; what has none stays as it is by default."""
        keys = keys_of(group)
        values = {key.option.field: self._option(key) for key in keys}
        try:
            return group(**values)
        except SettingsError as error:  # values that do not go together
            for key in keys:
                if error.where == key.option.flag:
                    raise SettingsError(error.what, where=f"understudy:{key.name}", remedy=error.remedy) from error
            raise

    def _option(self, key: Key) -> Any:
        if key.choices:
            return self.one_of(key.name, key.choices)
        match key.type:
            case "integer":
                return key.option.type(self.at_least(key.name, key.least or 0))
            case "string" if key.option.type is float:
                return self.seconds(key.name)
            case _:
                return self.value(key.name)

    def label(self, text: str, key: str) -> str:
        if not _LABEL.fullmatch(text):
            raise wrong(key, text, "a DNS label: lower-case letters, digits and inner hyphens, up to 63", "streaming")
        return text

    def object_name(self, text: str, key: str) -> str:
        if not _is_dns_name(text):
            raise wrong(
                key, text, "an object's name: lower-case letters, digits, inner hyphens and dots", "flights-key"
            )
        return text

    def object_name_or_none(self, key: str) -> str:
        return self.text(key) and self.object_name(self.text(key), key)

    def labels(self, key: str, values: re.Pattern[str] = LABEL_VALUE) -> dict[str, str]:
        """Reads a mapping whose names have the form of labels and whose values match ``values``."""
        found = {name: str(value) for name, value in self.value(key).items()}
        for name, value in found.items():
            prefix, slash, last = name.rpartition("/")
            if not last or not LABEL_VALUE.fullmatch(last) or (slash and not _is_dns_name(prefix)):
                raise wrong(
                    key, name, "a label's name: letters, digits, inner - _ . after an optional DNS name and /", "disk"
                )
            if not values.fullmatch(value):
                raise wrong(key, f"{name}: {value}", "up to 63 letters, digits and inner - _ .", f"{name}: ssd")
        return found

    def image(self, key: str) -> str:
        self.needed(key, "an image", "registry.example.com/flights:1.4.2")
        return self.matching(key, r"[a-z0-9][\w./:@-]*", "an image's name", "registry.example.com/flights:1.4.2")

    def prefix(self, key: str) -> str:
        """Reads a path prefix, without slashes around it."""
        form = r"/*([\w.!*'()-]+(/[\w.!*'()-]+)*)?/*"
        return self.matching(key, form, "parts of letters, digits and . - _ between single /", "jobs/flights").strip(
            "/"
        )

    def matching(self, key: str, form: str, what: str, example: str) -> str:
        if not re.fullmatch(form, self.text(key), re.ASCII):
            raise wrong(key, self.text(key), what, example)
        return self.text(key)

    def quantity(self, key: str) -> str:
        if quantity(self.text(key)) is None:
            raise wrong(key, self.text(key), "a quantity of Kubernetes, above 0", "2Gi")
        return self.text(key)

    def java(self, key: str) -> str:
        if java_bytes(self.text(key)) is None:
            raise wrong(key, self.text(key), "memory as Spark writes it", "1g")
        return self.text(key)

    def variables(self, key: str) -> dict[str, str]:
        for name in self.value(key):
            if not _VARIABLE.fullmatch(name) or name in _OURS:
                raise wrong(key, name, f"names of variables, and none of {', '.join(_OURS)}", "LOG_LEVEL")
        return {name: str(value) for name, value in self.value(key).items()}

    def reference(self, name: str, to: str) -> tuple[str, str]:
        secret, slash, key = to.partition("/")
        if not (slash and ENTRY.fullmatch(key)):
            raise wrong("secretEnvironment", f"{name}: {to}", "SECRET/KEY for each name", "API_KEY: flights-api/key")
        return self.object_name(secret, "secretEnvironment"), key

    def network(self, text: str) -> str:
        try:
            found = str(ipaddress.ip_network(text))
        except ValueError as error:
            raise wrong("egress", text, f"a CIDR ({error})", "10.0.0.0/8") from None
        if found != text:  # Python reads an address and a netmask, too; Kubernetes does not
            raise wrong("egress", text, "a CIDR", found)
        return text


def _is_dns_name(text: str) -> bool:
    """Labels with dots between them: the form of objects' names, and of the prefixes of labels."""
    return len(text) <= 253 and all(_LABEL.fullmatch(part) for part in text.split("."))


def wrong(key: str, value: object, rule: str, example: object = "", *, remedy: str = "") -> SettingsError:
    """The error for a value that is refused. ``value`` is empty if it is missing. Give an ``example`` or a ``remedy``."""
    shown = f"{value!r} is refused; " if value != "" else ""
    return SettingsError(f"{shown}{rule}", where=f"understudy:{key}", remedy=remedy or f"For example {example}")
