"""What Hadoop's S3A is told about a bucket, for a client that is not S3A. What it cannot be told is refused by name.

Read are Spark's own settings (``spark.hadoop.fs.s3a.…`` and those of one bucket) and the environment, as S3A reads them; no core-site.xml.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass, replace
from pathlib import Path

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
#: The chains among them that S3A ends in a file for.
_CHAINS = frozenset({"DefaultCredentialsProvider", "DefaultAWSCredentialsProviderChain"})
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
    refuse_unknown(settings, bucket)

    def of(name: str, default: str = "") -> str:
        return _of(settings, bucket, name, default)

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


def refuse_unknown(settings: Mapping[str, str], bucket: str) -> None:
    """Raise ``SettingsError`` for what ``translate`` cannot, on whichever machine: the environment is not looked at."""
    for name in _UNKNOWN:
        value = _of(settings, bucket, name)
        if value.lower() not in _OFF:
            raise _refused(
                name, value if "arn" not in name else "it", "Keep HA storage in a bucket that needs no such setting"
            )
    known = _KEYS_IN_SETTINGS | _FROM_ENVIRONMENT | {_ANONYMOUS}
    names = _last_parts(_of(settings, bucket, "aws.credentials.provider"))
    if unknown := [each for each in names if each not in known]:
        raise _refused("aws.credentials.provider", unknown[0], f"Name one of {', '.join(sorted(known))}")


def _of(settings: Mapping[str, str], bucket: str, name: str, default: str = "") -> str:
    own = settings.get(f"{_PREFIX}bucket.{bucket}.{name}")
    return (settings.get(f"{_PREFIX}{name}", default) if own is None else own).strip()


def _last_parts(classes: str) -> list[str]:
    return [each.strip().rpartition(".")[2] for each in classes.split(",") if each.strip()]


def _with_credentials(found: S3Settings, providers: str, keys: tuple[str, str, str]) -> S3Settings:
    names = _last_parts(providers)
    if names == [_ANONYMOUS]:
        return replace(found, anonymous=True)
    key, secret, session = keys
    if key and (not names or _KEYS_IN_SETTINGS & set(names)):
        return replace(found, key=key, secret=secret, session=session)
    if (chains := _CHAINS & set(names)) and (file := _only_in_file(os.environ)) is not None:
        raise SettingsError(
            f"{min(chains)} takes the keys in {file}, which HA storage does not read",
            where="fs.s3a.aws.credentials.provider",
            remedy="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; or name SimpleAWSCredentialsProvider, and set fs.s3a.access.key and"
            " fs.s3a.secret.key",
        )
    return found


def _only_in_file(environment: Mapping[str, str]) -> Path | None:
    """The file of credentials that AWS's chain comes to: before containers and instances, and after the environment."""
    if environment.get("AWS_ACCESS_KEY_ID") or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return None
    path = Path(
        environment.get("AWS_SHARED_CREDENTIALS_FILE") or Path(environment.get("HOME", "/")) / ".aws/credentials"
    )
    profiles = ConfigParser(default_section="", interpolation=None, strict=False)
    try:
        profiles.read_string(path.read_text())
    except (OSError, ValueError, ConfigParserError):
        return None  # AWS's chain cannot read it either
    return path if profiles.has_section(environment.get("AWS_PROFILE") or "default") else None


def _refused(name: str, value: str, remedy: str) -> SettingsError:
    return SettingsError(f"{value} is nothing that HA storage can use", where=f"fs.s3a.{name}", remedy=remedy)
