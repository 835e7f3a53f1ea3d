"""What Hadoop's S3A is told about a bucket, for a client that is not S3A. What it cannot be told is refused by name.

Read are Spark's own settings (``spark.hadoop.fs.s3a.…`` and those of one bucket) and the environment, as S3A reads them; no core-site.xml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from understudy.errors import SettingsError

_PREFIX = "spark.hadoop.fs.s3a."

#: Settings that would make S3A reach another place, or reach it in another way, than a client that does not know them.
_UNKNOWN = (
    "proxy.host",
    "assumed.role.arn",
    "accesspoint.arn",
    "encryption.algorithm",
    "server-side-encryption-algorithm",
    "delegation.token.binding",
    "custom.signers",
    "signing-algorithm",
    "s3.signing-algorithm",
    "requester.pays.enabled",
    "security.credential.provider.path",
)
_OFF = frozenset({"", "false", "none"})

#: The endpoint of a region, which the region alone says as well, and of none.
_AWS = re.compile(r"https?://s3(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com")

#: Where credentials come from, by the last part of the class that S3A names for it.
_KEYS_IN_SETTINGS = frozenset({"SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"})
_FROM_ENVIRONMENT = frozenset(
    {
        "EnvironmentVariableCredentialsProvider",
        "WebIdentityTokenFileCredentialsProvider",
        "WebIdentityTokenCredentialsProvider",
        "ContainerCredentialsProvider",
        "EC2ContainerCredentialsProviderWrapper",
        "InstanceProfileCredentialsProvider",
        "IAMInstanceCredentialsProvider",
        "DefaultCredentialsProvider",
        "DefaultAWSCredentialsProviderChain",
    }
)
_ANONYMOUS = "AnonymousAWSCredentialsProvider"


@dataclass(frozen=True, slots=True, repr=False)
class S3Settings:
    """``endpoint``: a URL, empty for AWS. ``key`` and what belongs to it are empty where the environment has them; see ``anonymous``."""

    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    key: str = ""
    secret: str = ""
    session: str = ""
    anonymous: bool = False

    def __repr__(self) -> str:
        """Without secrets."""
        return f"S3Settings({self.endpoint or 'AWS'}, {self.region})"


def translate(settings: Mapping[str, str], bucket: str) -> S3Settings:
    """From Spark's ``settings``; those of this ``bucket`` alone win. Raises ``SettingsError`` for what cannot be translated."""

    def of(name: str, default: str = "") -> str:
        own = settings.get(f"{_PREFIX}bucket.{bucket}.{name}")
        return (settings.get(f"{_PREFIX}{name}", default) if own is None else own).strip()

    for name in _UNKNOWN:
        if of(name).lower() not in _OFF:
            raise _refused(
                name, of(name) if "arn" not in name else "it", "Keep HA storage in a bucket that needs no such setting"
            )
    endpoint = of("endpoint").rstrip("/")
    if endpoint and "://" not in endpoint:
        secure = of("connection.ssl.enabled", "true").lower() != "false"
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    region = of("endpoint.region")
    if (aws := _AWS.fullmatch(endpoint)) is not None:
        endpoint, region = "", region or aws[1] or ""
    found = S3Settings(endpoint, region, of("path.style.access").lower() == "true")
    return _with_credentials(
        found, of("aws.credentials.provider"), (of("access.key"), of("secret.key"), of("session.token"))
    )


def _with_credentials(found: S3Settings, providers: str, keys: tuple[str, str, str]) -> S3Settings:
    names = [each.strip().rpartition(".")[2] for each in providers.split(",") if each.strip()]
    known = _KEYS_IN_SETTINGS | _FROM_ENVIRONMENT | {_ANONYMOUS}
    if unknown := [each for each in names if each not in known]:
        raise _refused("aws.credentials.provider", unknown[0], f"Name one of {', '.join(sorted(known))}")
    if names == [_ANONYMOUS]:
        return replace(found, anonymous=True)
    key, secret, session = keys
    if key and (not names or _KEYS_IN_SETTINGS & set(names)):
        return replace(found, key=key, secret=secret, session=session)
    return found


def _refused(name: str, value: str, remedy: str) -> SettingsError:
    return SettingsError(f"{value} is nothing that HA storage can use", where=f"fs.s3a.{name}", remedy=remedy)
