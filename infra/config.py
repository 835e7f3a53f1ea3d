"""The stack's configuration as the engine hands it over: text, to be read by each key's declared type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pulumi.runtime import config

from infra.schema import NAMESPACE, keys
from understudy.errors import SettingsError


def given() -> dict[str, Any]:
    """Values by key, without the project's name before it. Raises ``SettingsError`` for text that is not of the declared type.

    Secrets are read as they are: rules need them.
    """
    everything = {**config.CONFIG.get(), **config.get_config_env()}
    found = {key.removeprefix(NAMESPACE): value for key, value in everything.items() if key.startswith(NAMESPACE)}
    for name, key in keys().items():
        if key.secret and found.get(name) and not config.is_config_secret(f"{NAMESPACE}{name}"):
            remedy = f"pulumi config set --secret {name}, and take another key: this one has been on disk"
            raise SettingsError("is there in plain text", where=f"{NAMESPACE}{name}", remedy=remedy)
        if not key.secret and config.is_config_secret(f"{NAMESPACE}{name}"):
            rule = "is a secret here, and would be plain text in the cluster"
            raise SettingsError(
                rule,
                where=f"{NAMESPACE}{name}",
                remedy="Put what is secret into a Secret, and name that in secretEnvironment",
            )
    return read(found)


def read(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _parsed(name, value) for name, value in found.items()}


def _parsed(name: str, value: Any) -> Any:
    key = keys().get(name)
    if key is None or key.type == "string" or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise SettingsError(
            f"{value!r} is no {key.type}", where=f"{NAMESPACE}{name}", remedy=f"The default is {key.default!r}"
        ) from None
