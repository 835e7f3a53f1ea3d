"""Services in a directory of one machine: documents, lock and claims are files below ``--ha-dir``."""

from __future__ import annotations

from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import SettingsError
from understudy.ha.services import HighAvailabilityServices
from understudy.services.plugin import Plugin, ServicesSettings

_DOCUMENTS = "documents"


def open_directory(settings: ServicesSettings) -> HighAvailabilityServices:
    """Raises ``SettingsError`` for an address, and ``DocumentError`` where the directory cannot be made."""
    if settings.address:
        raise SettingsError(
            "the services of one machine have none",
            where="--ha-address",
            remedy="Leave it out, and give the directory as --ha-dir",
        )
    home, request = settings.home, settings.request_timeout
    documents = FilesystemDocumentStore(home / _DOCUMENTS, request, log=settings.log)
    claims = FilesystemDocumentStore(home / "floor", request)
    return HighAvailabilityServices(documents, documents, claims, place=f"below {settings.ha_dir}")


async def connect(settings: ServicesSettings) -> HighAvailabilityServices:
    return open_directory(settings)


async def clusters(settings: ServicesSettings) -> list[str]:
    return sorted(path.parent.name for path in settings.ha_dir.glob(f"*/{_DOCUMENTS}") if path.is_dir())


PLUGIN = Plugin(locks=("file",), connect=connect, clusters=clusters)
