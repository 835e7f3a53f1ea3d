"""Names of servers that cannot be found: a setting is wrong, or it may be otherwise in a while."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from understudy.errors import ServerUnreachable, SettingsError
from understudy.services.names import find_names


def found(monkeypatch: pytest.MonkeyPatch, *, in_a_pod: bool = False, **known: int | str) -> None:
    """``known``: by host, what looking it up comes to: the resolver's error code, or an address."""
    if in_a_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    else:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def look_up(host: str, *_: Any, **__: Any) -> list[str]:
        code = known[host]
        if isinstance(code, int):
            raise socket.gaierror(code, "as told")
        return [code]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    asyncio.run(find_names([f"{host}:2181" for host in known], "--ha-address"))


def test_one_that_is_known_is_no_reason_to_complain(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, a=socket.EAI_NONAME, b="192.0.2.1")


def test_none_that_is_known_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="--ha-address: none of a, b is the name of a machine"):
        found(monkeypatch, a=socket.EAI_NONAME, b=socket.EAI_NONAME)


def test_a_name_server_that_does_not_answer_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerUnreachable, match="--ha-address: none of a, b can be looked up now"):
        found(monkeypatch, a=socket.EAI_AGAIN, b=socket.EAI_NONAME)


def test_nor_is_a_service_without_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerUnreachable, match="Look whether its Service has pods"):
        found(monkeypatch, in_a_pod=True, a=socket.EAI_NONAME)
