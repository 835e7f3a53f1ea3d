"""Which services ``--ha`` and ``--lock`` name, and how they are opened.

A name is one of the built-in services, or an entry point of the group ``understudy.ha``. A built-in name is never another package's. The
module of a built-in is loaded when it is chosen, so a replica loads the client of its own server and no other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from understudy.config.locks import BUILT_IN
from understudy.errors import EnvironmentProblem, SettingsError, UnderstudyError
from understudy.ha.services import HighAvailabilityServices
from understudy.services.plugin import GROUP, Plugin, ServicesSettings

_OPERATIONS = ("read", "create", "replace", "bury", "watch")


@dataclass(frozen=True, slots=True)
class Choice:
    """What ``--ha`` and ``--lock`` come to: a name of services, and a kind of lock they have."""

    name: str
    lock: str


def choose(ha: str, lock: str) -> Choice:
    """``ha`` and ``lock`` as they were given, empty for what was not. Without either: an API server in a pod, else this machine's directory.

    Raises:
        SettingsError: there are no such services, or they have no such lock.
        EnvironmentProblem: they are there, and cannot be loaded.
    """
    if ha:
        kinds = load(ha).locks if ha not in BUILT_IN else BUILT_IN[ha]
        if lock and lock not in kinds:
            raise SettingsError(
                f"{lock!r} is no lock of --ha {ha}",
                where="--lock",
                remedy=f"Leave it out, or choose {', '.join(kinds)}",
            )
        return Choice(ha, lock or kinds[0])
    if not lock:
        name = "kubernetes" if os.environ.get("KUBERNETES_SERVICE_HOST") else "filesystem"
        return Choice(name, BUILT_IN[name][0])
    for name, kinds in BUILT_IN.items():
        if lock in kinds:
            return Choice(name, lock)
    known = ", ".join(each for kinds in BUILT_IN.values() for each in kinds)
    raise SettingsError(
        f"unknown lock {lock!r}", where="--lock", remedy=f"Choose one of {known}; or name its services with --ha"
    )


def load(name: str) -> Plugin:
    """The services of ``name``.

    Raises:
        SettingsError: there are none, or what the entry point names is none.
        EnvironmentProblem: their package cannot be imported.
    """
    where = f"--ha {name}"
    if name in BUILT_IN:
        plugin: object = import_module(f"understudy.services.{name}").PLUGIN
        assert isinstance(plugin, Plugin), f"{name} is built in"
        return plugin
    plugin = _imported(_entry_point(name), where)
    if not isinstance(plugin, Plugin):
        raise SettingsError(
            f"its entry point names {_kind(plugin)} and no understudy.services.plugin.Plugin",
            where=where,
            remedy=_REPORT,
        )
    _check_locks(plugin, where)
    return plugin


async def connect(name: str, settings: ServicesSettings) -> HighAvailabilityServices:
    """Opens the services of ``name``. They have to be closed.

    Raises:
        SettingsError: there are none of that name, a setting is wrong, or the plug-in breaks its contract.
        EnvironmentProblem: a package is missing.
        DocumentError: the server does not answer, or refuses us.
    """
    plugin, where = load(name), f"--ha {name}"
    if plugin.address and not settings.address:
        raise SettingsError(f"{where} needs a place", where="--ha-address", remedy=f"Write {plugin.address}")
    try:
        services: object = await plugin.connect(settings)
    except UnderstudyError:
        raise
    except _FAULTS as error:
        raise SettingsError(f"its services raised {_said(error)}", where=where, remedy=_REPORT) from error
    if not isinstance(services, HighAvailabilityServices):
        raise SettingsError(f"its services are {_kind(services)}", where=where, remedy=_REPORT)
    stores = {"documents": services.documents, "lock": services.lock, "claims": services.claims}
    for field, store in stores.items():
        missing = [each for each in _OPERATIONS if not callable(getattr(store, each, None))]
        if missing and not (field == "claims" and store is None):
            await services.close()
            raise SettingsError(f"its {field} lack {', '.join(missing)}", where=where, remedy=_REPORT)
    return services


async def clusters(name: str, settings: ServicesSettings) -> list[str]:
    """Cluster ids there are, as far as these services can list them. Raises what ``connect`` raises."""
    try:
        return sorted(await load(name).clusters(settings))
    except UnderstudyError:
        raise
    except _FAULTS as error:
        where = f"--ha {name}"
        raise SettingsError(f"listing clusters raised {_said(error)}", where=where, remedy=_REPORT) from error


#: What another package's code may raise. A module that calls ``sys.exit`` would otherwise end a replica without a word, perhaps with code 0.
_FAULTS = (Exception, SystemExit)

_REPORT = "Report it to those who provide that package; docs/high-availability.md says what it has to be"


def _entry_point(name: str) -> EntryPoint:
    there = entry_points(group=GROUP)
    found = [each for each in there if each.name == name]
    if not found:
        known = ", ".join(sorted({*BUILT_IN, *(each.name for each in there)}))
        raise SettingsError(
            f"there are no services {name!r}",
            where="--ha",
            remedy=f"Choose one of {known}; or install the package that provides it",
        )
    values = sorted({each.value for each in found})
    if len(values) > 1:
        raise SettingsError(
            f"several packages provide it: {', '.join(values)}", where=f"--ha {name}", remedy="Uninstall all but one"
        )
    return found[0]


def _imported(point: EntryPoint, where: str) -> object:
    try:
        return point.load()
    except _FAULTS as error:
        raise EnvironmentProblem(
            f"{point.value} cannot be loaded: {_said(error)}",
            where=where,
            remedy="Install its package whole, with all that it needs",
        ) from error


def _check_locks(plugin: Plugin, where: str) -> None:
    """Raises ``SettingsError`` unless it has locks of its own."""
    locks: object = plugin.locks
    if not isinstance(locks, tuple) or not all(isinstance(each, str) for each in locks):  # ("etcd") is a text
        raise SettingsError(f"its locks are no tuple of texts but {locks!r}", where=where, remedy=_REPORT)
    built_in = {each for kinds in BUILT_IN.values() for each in kinds}
    taken = [each for each in plugin.locks if each in built_in or not each]
    if not plugin.locks or taken:
        what = f"it calls a lock {taken[0]!r}" if taken else "it has no kind of lock"
        raise SettingsError(what, where=where, remedy=_REPORT)


def _kind(value: object) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}"


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
