"""``understudy claims move``: the HA data of a job go to other services, or to another kind of lock."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import never_run
from understudy.cli.where import (
    REQUEST,
    ClusterId,
    Conf,
    Context,
    Ha,
    HaAddress,
    HaDir,
    Lock,
    Namespace,
    Stores,
    Where,
)
from understudy.config.locks import BUILT_IN
from understudy.errors import SettingsError

if TYPE_CHECKING:
    from understudy.ha.moving import Move, Place

claims = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What a job's claims rest on: its lock, and where its HA data are.",
)

_AS = "As {}, at the new place."

_ToHa = Annotated[
    str,
    typer.Option(
        help="The new high-availability services, as understudy run will be given them.", show_default="those of now"
    ),
]
_ToHaAddress = Annotated[str, typer.Option(help=_AS.format("--ha-address"), show_default="none")]
_ToHaDir = Annotated[Path | None, typer.Option(help=_AS.format("--ha-dir"), show_default="that of now")]
_ToNamespace = Annotated[str, typer.Option(help=_AS.format("--namespace"), show_default="the context's")]
_ToContext = Annotated[str, typer.Option(help=_AS.format("--context"), show_default="that of now")]
_ToLock = Annotated[
    str,
    typer.Option(
        help="The new kind of lock, as understudy run will be given it.", show_default="the services' default"
    ),
]
_Ended = Annotated[
    bool, typer.Option("--replicas-ended", help="Replicas that left an entry were killed: you know that none runs.")
]


@claims.command("move")
def move(
    cluster_id: ClusterId = "",
    ha_dir: HaDir = None,
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    lock: Lock = "",
    to_ha: _ToHa = "",
    to_ha_address: _ToHaAddress = "",
    to_ha_dir: _ToHaDir = None,
    to_namespace: _ToNamespace = "",
    to_context: _ToContext = "",
    to_lock: _ToLock = "",
    conf: Conf = None,
    replicas_ended: _Ended = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Move a job to other high-availability services, or to another kind of lock, while none of its replicas runs.

    Its document, what its cluster id is bound to, and its highest epoch go to the new place. The old place keeps a tombstone that refuses every
    start, and says where the job has gone. Checkpoints, sinks, their claims and --ha-storage stay where they are. A lock that is held is
    watched for one lease. Where it was broken off, the same command goes on; where all is done, it changes nothing.

    Exit codes: 0 it is at the new place; 2 a setting is wrong, or there is no such cluster id; 4 it was broken off: repeat it; 7 a permission is
    missing; 8 a server does not answer; 9 no replica has ever run there; 10 a replica runs or leads, or the new place has other data, and nothing
    was changed.
    """
    import asyncio

    if not cluster_id:
        raise SettingsError("it has to be named", where="--cluster-id", remedy="Give the one that shall move")
    source = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    target = _target(
        source, Where(to_ha_dir, cluster_id, to_namespace, to_context, to_ha, to_ha_address, conf), to_lock
    )

    done = asyncio.run(_moved(source, lock, target, to_lock, ended=replicas_ended))
    if as_json:
        sys.stdout.write(f"{json.dumps({'cluster': cluster_id, 'done': done})}\n")
        return
    sys.stdout.write("".join(f"{each}\n" for each in done) or "it is there already; nothing was changed\n")


async def _moved(source: Where, lock: str, target: Where, to_lock: str, *, ended: bool) -> list[str]:
    from understudy.services import registry

    async with AsyncExitStack() as opened:
        old = await opened.enter_async_context(source.open(lock))
        with _of_the_new_place():
            registry.choose(target.services, to_lock)
            new = await opened.enter_async_context(target.open_new(to_lock))
        found = await _move(source, old, target, new, ended=ended)
        return [each async for each in found.run()]


@contextmanager
def _of_the_new_place() -> Iterator[None]:
    """Raises ``SettingsError`` that names the option which is of the new place: ``--to-ha`` for what was said of ``--ha``."""
    try:
        yield
    except SettingsError as error:
        where = error.where.replace("--", "--to-", 1) if error.where.startswith("--") else error.where
        raise type(error)(error.what, where=where, remedy=error.remedy) from error


def _target(source: Where, given: Where, lock: str) -> Where:
    """The new place; what is not said of it is as at the old one. Raises ``SettingsError`` where nothing at all is said."""
    if not (given.ha or given.ha_address or given.ha_dir or given.namespace or given.context or lock):
        raise SettingsError(
            "where it shall go is not said",
            where="--to-ha",
            remedy="Give --to-ha, --to-ha-dir, --to-lock or another such option",
        )
    name = given.ha or ("kubernetes" if given.namespace or given.context else source.services)
    in_kubernetes, stays = name == "kubernetes", name == source.services
    return replace(
        given,
        ha=name,
        ha_dir=None if in_kubernetes else given.ha_dir or source.ha_dir,
        ha_address=given.ha_address or (source.ha_address if stays else ""),
        namespace=given.namespace or (source.namespace if stays and not given.context else ""),
        context=given.context or (source.context if in_kubernetes else ""),
    )


async def _move(source: Where, old: Stores, target: Where, new: Stores, *, ended: bool) -> Move:
    """Raises ``SettingsError`` where both places are one, ``JobNotBegun``, and ``DocumentError``."""
    from understudy.ha.moving import Move
    from understudy.ha.replicas import bound
    from understudy.protocol.names import Names, replicas_of

    known = bound(await old.documents.read(replicas_of(old.cluster)))
    if known is None:
        raise never_run(old, "There is nothing to move")
    there, here = _place(source, old), _place(target, new, new.lock_kind)
    same = _same(source, old, target, new)
    if same and len(there.kinds) == 1:
        raise SettingsError("it is the place where the job is", where="--to-ha", remedy="Give another one")
    names = Names(old.cluster, known[0])
    return Move(names, there, here, new.lock_kind, new.lock, same, time.time(), ended)


def _place(where: Where, stores: Stores, lock: str = "") -> Place:
    """``lock``: the kind that words name, which a person gives to replicas there."""
    from understudy.documents.filesystem import FilesystemDocumentStore
    from understudy.ha.moving import Place
    from understudy.services import registry

    name = where.services
    kinds = BUILT_IN[name] if name in BUILT_IN else registry.load(name).locks
    known = where.home / "floor"
    claims = FilesystemDocumentStore(known, REQUEST) if stores.api is None and known.is_dir() else None
    words = f"--ha {name}{f' --lock {lock}' if lock else ''}, {stores.place}"
    return Place(stores.documents, stores.locks, kinds, words, claims)


def _same(source: Where, old: Stores, target: Where, new: Stores) -> bool:
    """Whether both are one place, so that at most the lock's kind changes."""
    if old.api is not None and new.api is not None:
        return (old.api.host, old.api.namespace) == (new.api.host, new.api.namespace)
    return source.services == target.services and old.place == new.place
