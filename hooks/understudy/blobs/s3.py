"""Blobs as objects of a bucket, created by a conditional PUT (``If-None-Match: *``). By obstore, which is imported here and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from obstore import delete_async, get_async, put_async
from obstore import list as list_objects
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from understudy.blobs.model import check_name, check_prefix
from understudy.blobs.s3_settings import S3Settings
from understudy.errors import AccessDenied, DocumentError, ServerUnreachable, SettingsError
from understudy.redaction import presentable

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

T = TypeVar("T")

#: Requests that failed before anything certain was answered are sent again so often, within a request's time.
_RETRIES = 3
#: What S3 calls it in the body of a 404, which else means that there is no such object.
_NO_BUCKET = "NoSuchBucket"
#: What the client says of a redirect without a place.
_OTHER_REGION = "incorrectly configured region"


class S3BlobStore:
    """A ``BlobStore`` below ``prefix`` of a bucket. ``request_timeout`` in seconds, retries included.

    Not guaranteed on a server that ignores the condition of a PUT; ``probe`` finds one.
    """

    def __init__(self, bucket: str, prefix: str, settings: S3Settings, request_timeout: float) -> None:
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._timeout = request_timeout
        self.place = f"s3a://{bucket}/{self._prefix}".rstrip("/")
        within = timedelta(seconds=request_timeout)
        client: ClientConfig = {
            "allow_http": settings.endpoint.startswith("http://"),
            "timeout": within,
            "connect_timeout": within,
        }
        retry: RetryConfig = {
            "max_retries": _RETRIES,
            "retry_timeout": within,
            "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2},
        }
        keys = _keys(settings) if settings.key else None
        self._store = S3Store(
            bucket,
            config=_config(settings, bucket),
            client_options=client,
            retry_config=retry,
            credential_provider=keys,
        )

    async def read(self, name: str) -> bytes | None:
        try:
            return await self._ask(name, _read(self._store, self._prefix + check_name(name)))
        except FileNotFoundError:
            return None

    async def create(self, name: str, data: bytes) -> bytes:
        path = self._prefix + check_name(name)
        while True:
            try:
                await self._ask(name, put_async(self._store, path, data, mode="create"))
            except AlreadyExistsError:
                pass  # by another writer; or by us, and the answer was lost
            else:
                return data
            found = await self.read(name)
            if found is not None:  # else it was deleted meanwhile
                return found

    async def delete(self, name: str) -> None:
        try:
            await self._ask(name, delete_async(self._store, self._prefix + check_name(name)))
        except FileNotFoundError:
            return

    async def names(self, prefix: str) -> list[str]:
        async def listed() -> list[str]:
            found = []
            async for page in list_objects(self._store, self._prefix + prefix):
                found += [each["path"].removeprefix(self._prefix) for each in page]
            return sorted(found)

        return await self._ask(prefix, listed())

    async def discard(self, prefix: str) -> int:
        """A page of names, and a request that deletes them, in turns: each within its own time."""
        pages, count = list_objects(self._store, self._prefix + check_prefix(prefix)), 0
        while (page := await self._ask(prefix, anext(pages, None))) is not None:
            paths = [each["path"] for each in page]
            await self._ask(prefix, delete_async(self._store, paths))
            count += len(paths)
        return count

    async def close(self) -> None:
        pass

    async def _ask(self, name: str, request: Awaitable[T]) -> T:
        """Raises ``AlreadyExistsError``, ``FileNotFoundError`` for a name, and everything else as ``DocumentError``."""
        where = f"{self.place}/{name}"
        try:
            async with asyncio.timeout(2 * self._timeout):
                return await request
        except AlreadyExistsError:
            raise
        except FileNotFoundError as error:
            if _NO_BUCKET not in str(error):
                raise
            raise DocumentError("there is no such bucket", where=where, remedy="Make it, or name another one") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise AccessDenied(
                f"the object store refuses it: {_said(error)}",
                where=where,
                remedy="Check the credentials, and that they may get, put, delete and list below this prefix",
            ) from None
        except TimeoutError:
            raise ServerUnreachable(
                f"the object store does not answer within {2 * self._timeout:g} s",
                where=where,
                remedy="Check the endpoint, and that this machine may reach it",
            ) from None
        except BaseError as error:
            if _OTHER_REGION in str(error):
                raise SettingsError(
                    "the bucket is in another region", where="fs.s3a.endpoint.region", remedy="Name its own"
                ) from None
            raise ServerUnreachable(
                f"the object store does not do it: {_said(error)}",
                where=where,
                remedy="Check the endpoint; it is tried again",
            ) from None


async def _read(store: S3Store, path: str) -> bytes:
    return bytes(await (await get_async(store, path)).bytes_async())


def _config(settings: S3Settings, bucket: str) -> S3Config:
    scheme, _, host = settings.endpoint.partition("://")
    path_style = settings.path_style or _has_no_subdomains(host)
    found: S3Config = {"virtual_hosted_style_request": not path_style}
    if settings.endpoint:
        # what this client is told is where the bucket is, and not where buckets are
        found["endpoint"] = settings.endpoint if path_style else f"{scheme}://{bucket}.{host}"
    if settings.region:
        found["region"] = settings.region
    if settings.anonymous:
        found["skip_signature"] = True
    return found


def _has_no_subdomains(host: str) -> bool:
    """An address, or a name of one part."""
    name = host.rpartition(":")[0] or host
    return bool(host) and ("." not in name or name.replace(".", "").isdigit() or name.startswith("["))


def _keys(settings: S3Settings) -> Callable[[], S3Credential]:
    """Those of the settings, whole: the client would complete them from the environment, with another key's session."""
    found: S3Credential = {
        "access_key_id": settings.key,
        "secret_access_key": settings.secret,
        "token": settings.session or None,
        "expires_at": None,
    }
    return lambda: found


def _said(error: BaseError) -> str:
    """In one line, without what the client says of itself."""
    return presentable(" ".join(str(error).split("\n\nDebug source:")[0].split()))
