"""Whether the hosts of an address have names that are known, asked where none of them answers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable

from understudy.addresses import split
from understudy.errors import ServerUnreachable, SettingsError


async def find_names(servers: Iterable[str], where: str) -> None:
    """Look up the host of each of ``servers``, ``host:port``. ``where`` names the setting.

    Raises ``SettingsError`` where none is the name of a machine, and ``ServerUnreachable`` where that may be otherwise in a while: the
    server of names does not answer, or this is a pod, where a Service's pods have names only while they are there.
    """
    asked = [split(each)[0] for each in servers]
    loop = asyncio.get_running_loop()
    found = await asyncio.gather(*(loop.getaddrinfo(each, None) for each in asked), return_exceptions=True)
    codes = {each.errno if isinstance(each, socket.gaierror) else None for each in found}
    names = ", ".join(asked)
    if None in codes:
        return
    if socket.EAI_AGAIN in codes:
        raise ServerUnreachable(
            f"none of {names} can be looked up now", where=where, remedy="Look at this machine's name server (DNS)"
        )
    told = f"none of {names} is the name of a machine"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        raise ServerUnreachable(told, where=where, remedy="Look whether its Service has pods, or correct it")
    raise SettingsError(told, where=where, remedy="Correct it")
