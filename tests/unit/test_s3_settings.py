"""What S3A is told is what HA storage is told, or it is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.errors import SettingsError
from understudy.s3.settings import S3Settings, translate

BEFORE = "spark.hadoop.fs.s3a."
SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"


def told(**given: str) -> dict[str, str]:
    """``_`` stands for a dot, and two of them for a hyphen."""
    return {BEFORE + name.replace("__", "-").replace("_", "."): value for name, value in given.items()}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, S3Settings()),
        ({"endpoint_region": "eu-west-1"}, S3Settings(region="eu-west-1")),
        ({"endpoint": "s3.eu-west-1.amazonaws.com", "endpoint_region": "eu-west-1"}, S3Settings(region="eu-west-1")),
        ({"endpoint": "s3.eu-central-1.amazonaws.com"}, S3Settings(region="eu-central-1")),
        ({"endpoint": "https://s3-eu-central-1.amazonaws.com/"}, S3Settings(region="eu-central-1")),
        ({"endpoint": "s3.amazonaws.com"}, S3Settings()),
        (
            {"endpoint": "https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com"},
            S3Settings("https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com"),
        ),
        ({"endpoint": "https://s3.cn-north-1.amazonaws.com.cn"}, S3Settings("https://s3.cn-north-1.amazonaws.com.cn")),
        ({"endpoint": "http://h:9000/", "path_style_access": "true"}, S3Settings("http://h:9000", path_style=True)),
        ({"endpoint": "h:9000"}, S3Settings("https://h:9000")),
        ({"endpoint": "h:9000", "connection_ssl_enabled": "false"}, S3Settings("http://h:9000")),
        ({"access_key": "k", "secret_key": "s"}, S3Settings(key="k", secret="s")),
        ({"access_key": "k", "secret_key": "s", "session_token": "t"}, S3Settings(key="k", secret="s", session="t")),
        (
            {"access_key": "k", "secret_key": "s", "aws_credentials_provider": f"{SIMPLE}"},
            S3Settings(key="k", secret="s"),
        ),
        (
            {
                "access_key": "k",
                "secret_key": "s",
                "aws_credentials_provider": "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
            },
            S3Settings(),
        ),
        (
            {"aws_credentials_provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            S3Settings(anonymous=True),
        ),
        ({"bucket_b_endpoint": "http://own", "endpoint": "http://all"}, S3Settings("http://own")),
        ({"bucket_other_endpoint": "http://own", "endpoint": "http://all"}, S3Settings("http://all")),
        ({"encryption_algorithm": "", "requester_pays_enabled": "false"}, S3Settings()),
    ],
)
def test_translated(given: dict[str, str], wanted: S3Settings) -> None:
    assert translate(told(**given), "b") == wanted


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"proxy_host": "p"}, "fs.s3a.proxy.host"),
        ({"encryption_algorithm": "SSE-C"}, "fs.s3a.encryption.algorithm"),
        ({"assumed_role_arn": "arn:aws:iam::1:role/x"}, "fs.s3a.assumed.role.arn"),
        ({"bucket_b_accesspoint_arn": "arn:aws:s3:::x"}, "fs.s3a.accesspoint.arn"),
        ({"requester_pays_enabled": "true"}, "fs.s3a.requester.pays.enabled"),
        ({"aws_credentials_provider": f"{SIMPLE}, com.example.Vault"}, "fs.s3a.aws.credentials.provider"),
    ],
)
def test_what_cannot_be_translated_is_refused_by_its_name(given: dict[str, str], where: str) -> None:
    with pytest.raises(SettingsError) as refused:
        translate(told(**given), "b")
    assert refused.value.where == where


def test_secrets_are_not_shown() -> None:
    shown: Any = repr(translate(told(access_key="key", secret_key="secret", session_token="token"), "b"))
    assert not any(each in shown for each in ("key", "secret", "token"))
