"""What S3A is told is what HA storage is told, or it is refused by its name."""

from __future__ import annotations

from pathlib import Path
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


CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
ASKED = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE")


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of AWS's command line, with a profile ``default``; and nothing else says who we are."""
    for each in ASKED:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".aws" / "credentials"
    file.parent.mkdir()
    file.write_text("[default]\naws_access_key_id = k\naws_secret_access_key = 100%s\n")
    return file


def test_keys_that_only_a_file_has_are_refused_by_name(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = told(aws_credentials_provider=CHAIN)
    with pytest.raises(SettingsError) as refused:
        translate(settings, "b")
    assert f"DefaultCredentialsProvider takes the keys in {keys}" in str(refused.value)
    assert "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in str(refused.value)
    elsewhere = keys.rename(keys.with_name("elsewhere"))
    translate(settings, "b")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(elsewhere))
    with pytest.raises(SettingsError, match=str(elsewhere)):
        translate(settings, "b")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AWS_ACCESS_KEY_ID", "k"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"), ("AWS_PROFILE", "another")],
)
def test_a_file_that_the_chain_does_not_come_to_is_no_reason(
    keys: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    assert keys.exists()
    monkeypatch.setenv(variable, value)
    translate(told(aws_credentials_provider=CHAIN), "b")


def test_what_does_not_end_in_a_file_does_not_look_for_one(keys: Path) -> None:
    assert keys.exists()
    translate({}, "b")
    translate(told(aws_credentials_provider="org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"), "b")
    given = told(aws_credentials_provider=f"{SIMPLE},{CHAIN}", access_key="k", secret_key="s")
    assert translate(given, "b").key == "k"


def test_a_file_that_cannot_be_read_is_none(keys: Path) -> None:
    keys.write_text("no section\n")
    translate(told(aws_credentials_provider=CHAIN), "b")
