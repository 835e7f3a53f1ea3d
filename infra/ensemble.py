"""The ensemble of ZooKeeper that keeps a stack's lock and documents: its address, and rules about it.

The address names files. They are in pods, so none is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.reader import ENTRY, wrong
from understudy.documents.zookeeper_address import FILES, Place, place_of
from understudy.errors import SettingsError

if TYPE_CHECKING:
    from infra.settings import HaSettings, Settings

#: Where pods have the files that an address names: the keys of an existing Secret.
HA_FILES = "/etc/understudy/ha"
_EXAMPLE = "zk-0.zk.data.svc:2181,zk-1.zk.data.svc:2181,zk-2.zk.data.svc:2181/understudy"


def place_in(ha: HaSettings) -> Place:
    """Raises ``SettingsError``."""
    try:
        return place_of(ha.address)
    except SettingsError as error:
        raise SettingsError(error.what, where="understudy:haAddress", remedy=error.remedy) from None


def keys_of_secret(ha: HaSettings) -> list[str]:
    """Keys that the Secret has to have."""
    options = place_in(ha).options
    return sorted({options[each].removeprefix(f"{HA_FILES}/") for each in FILES if each in options})


def check_ensemble(settings: Settings) -> None:
    """Raises ``SettingsError`` for the first rule that is broken."""
    ha = settings.ha
    if not settings.in_zookeeper:
        for key, value in (("haAddress", ha.address), ("haSecret", ha.secret)):
            if value:
                remedy = f"Set ha to zookeeper, or leave {key} empty"
                raise wrong(key, value, f"ha {ha.services} needs none", remedy=remedy)
        return
    if not ha.address:
        raise wrong("haAddress", "", "ha zookeeper needs the ensemble's address", _EXAMPLE)
    _check_files(ha, place_in(ha))
    _check_others(settings)


def _check_files(ha: HaSettings, place: Place) -> None:
    if "kerberos" in place.options:
        rule = "a pod has no ticket cache for kerberos"
        raise wrong("haAddress", ha.address, rule, remedy="Use digest or sasl, with a file")
    named = {each: place.options[each] for each in FILES if each in place.options}
    for option, path in named.items():
        directory, _, key = path.rpartition("/")
        if directory != HA_FILES or not ENTRY.fullmatch(key):
            rule = f"pods have the keys of haSecret as files, below {HA_FILES}/"
            raise wrong("haAddress", f"{option}={path}", rule, f"{_EXAMPLE}?{option}={HA_FILES}/{option}")
    if named and not ha.secret:
        rule = f"haAddress names files ({', '.join(named)}), which are keys of a Secret"
        raise wrong("haSecret", "", rule, "haSecret: flights-zookeeper")
    if ha.secret and not named:
        remedy = f"Add ?digest={HA_FILES}/KEY to it, or leave haSecret empty"
        raise wrong("haSecret", ha.secret, "haAddress names no file", remedy=remedy)


def _check_others(settings: Settings) -> None:
    """What needs the lock or the documents in the API server, or elsewhere."""
    lock = settings.run.lock
    if lock:
        remedy = "Leave it empty, or set ha to kubernetes"
        raise wrong("lock", lock, "that lock is in the API server, and ha zookeeper has its own", remedy=remedy)
    if settings.on_volume:
        remedy = "Set workload to Deployment, or ha to kubernetes"
        raise wrong("ha", "zookeeper", "a StatefulSet keeps its documents on a volume", remedy=remedy)
    if settings.account.flow_schema:
        rule = "renewals go to ZooKeeper, and not to the API server"
        raise wrong("flowSchema", value=True, rule=rule, remedy="Leave it out")
