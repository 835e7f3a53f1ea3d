"""A prefix of a bucket, and requests to it, by obstore. Loaded by what keeps something in a bucket, and by nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotModifiedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from understudy.errors import AccessDenied, DocumentError, ServerUnreachable, SettingsError
from understudy.redaction import presentable
from understudy.s3.settings import S3Settings

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

T = TypeVar("T")

#: What S3 calls it in the body of a 404, which else means that there is no such object.
_NO_BUCKET = "NoSuchBucket"
#: What the client says of a redirect without a place.
_OTHER_REGION = "incorrectly configured region"


class Prefix:
    """What is below ``prefix`` of a bucket; ``store`` and ``path`` are what obstore's functions take.

    ``request_timeout`` in seconds, for a request and the ``retries`` that the client makes by itself. ``patience``: how long ``ask`` waits
    for both, where credentials have to be fetched first, too.
    """

    def __init__(
        self, bucket: str, prefix: str, settings: S3Settings, request_timeout: float, *, retries: int, patience: float
    ) -> None:
        self.prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.place = f"s3a://{bucket}/{self.prefix}".rstrip("/")
        self._patience = patience
        within = timedelta(seconds=request_timeout)
        client: ClientConfig = {
            "allow_http": settings.endpoint.startswith("http://"),
            "timeout": within,
            "connect_timeout": within,
        }
        retry: RetryConfig = {
            "max_retries": retries,
            "retry_timeout": within,
            "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2},
        }
        self.store = S3Store(
            bucket,
            config=store_config(settings, bucket),
            client_options=client,
            retry_config=retry,
            credential_provider=_keys(settings) if settings.key else None,
        )

    def path(self, name: str) -> str:
        return self.prefix + name

    async def ask(self, name: str, request: Awaitable[T]) -> T:
        """What ``request`` answers.

        Raises:
            FileNotFoundError, AlreadyExistsError, PreconditionError, NotModifiedError: answers about an object.
            AccessDenied, SettingsError: the server refuses it. It was not done.
            ServerUnreachable: no answer that says anything. It may have been done, or may be yet.
            DocumentError: there is no such bucket.
        """
        where = f"{self.place}/{name}"
        try:
            async with asyncio.timeout(self._patience):
                return await request
        except (AlreadyExistsError, PreconditionError, NotModifiedError):
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
                f"the object store does not answer within {self._patience:g} s",
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
                remedy="Check the endpoint, and that this machine may reach it",
            ) from None


def store_config(settings: S3Settings, bucket: str) -> S3Config:
    """What obstore is told of ``bucket`` by ``settings``, except for keys."""
    scheme, _, host = settings.endpoint.partition("://")
    # a certificate for all buckets of a host does not cover a name with a dot in it
    path_style = settings.path_style or "." in bucket or _has_no_subdomains(host)
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
