"""What leaves a driver or a supervisor as text is short and has no secrets in it."""

from __future__ import annotations

import io
import json

import pytest

from understudy.events import Event, Log
from understudy.protocol.messages import LONGEST_LINE, Ended, RehearsalReport, Roots, decode, encode
from understudy.redaction import LONGEST, MASK, presentable, presentable_location

SECRET = "hunter2hunter2"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}",
        f"Password: {SECRET}",
        f'{{"password": "{SECRET} with a blank"}}',
        f"{{'user': 'me', 'passwd': '{SECRET}'}}",
        f"jdbc:postgresql://db:5432/x?user=me&password={SECRET}&ssl=true",
        f"jdbc:sqlserver://db;user=me;password={SECRET};encrypt=true",
        f"jdbc:oracle:thin:scott/{SECRET}@//db:1521/x",
        f"cannot reach postgresql://me:{SECRET}@db:5432/x",
        f"https://me:p@{SECRET}@example.com/path",
        f"--conf spark.hadoop.fs.s3a.secret.key={SECRET}",
        f"fs.s3a.access.key -> x, fs.s3a.session.token={SECRET}",
        f"fs.azure.account.key.store.dfs.core.windows.net={SECRET}==",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f"403 for https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature={SECRET}&X-Amz-Expires=1",
        f"https://b.s3.amazonaws.com/k?X-Amz-Security-Token={SECRET}%2F",
        f"https://store.blob.core.windows.net/c?sv=2022&sig={SECRET}%3D",
        f"Authorization: Bearer {SECRET}",
        f"Authorization: Basic {SECRET}",
        f'{{"access_token": "{SECRET}"}}',
        f"api_key={SECRET}",
        f'sasl.jaas.config=\'org.apache.X required username="me" password="{SECRET}";\'',
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"ghp_{SECRET}{SECRET}",
    ],
)
def test_a_secret_is_masked_for_its_name_its_place_or_its_form(text: str) -> None:
    shown = presentable(text)
    assert SECRET not in shown
    assert MASK in shown


def test_keys_that_tell_themselves_are_masked_wherever_they_stand() -> None:
    for key in ("AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", JWT):
        assert key not in presentable(f"the key {key} is refused")


@pytest.mark.parametrize(
    "text",
    [
        "the job is run under token 4.2, above ours, 4.1",
        "[PARSE_SYNTAX_ERROR] unexpected token: 'FROM' at line 3",
        "s3a://bucket/prefix/checkpoint: already claimed (higher-token)",
        "abfss://container@account.dfs.core.windows.net/checkpoint does not exist",
        "spark://master:7077 does not answer; http://10.0.0.1:8080/metrics@noon",
        "batch 7 of /data/country=DE/hour=12",
        'this service account may not get leases: leases.coordination.k8s.io "x" is forbidden',
        "ValueError: keys() of the author are missing",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert presentable(text) == text


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    shown = presentable("x" * 1_200_000)
    assert len(shown) < LONGEST + 50
    assert shown.endswith("… (1200000 characters)")


def test_a_secret_across_the_cut_is_masked() -> None:
    for before in (LONGEST - 10, LONGEST - 1, LONGEST, LONGEST - 30):
        assert SECRET[:4] not in presentable(f"{'x ' * (before // 2)}https://me:{SECRET}@host/ {'y' * 20_000}")


def test_a_location_keeps_its_length_and_loses_its_password() -> None:
    long = "s3a://bucket/" + "x" * 3000
    assert presentable_location(long) == long
    assert presentable_location("/data/token=12345678/x") == "/data/token=12345678/x"
    assert presentable_location(f"ftp://me:{SECRET}@host/checkpoint") == f"ftp://{MASK}@host/checkpoint"


def test_what_a_driver_says_is_cut_and_masked_at_both_ends() -> None:
    ended = Ended(1, f"ValueError: password={SECRET} {'x' * 1_200_000}", asked=True)
    line = encode(ended)
    assert len(line) < 10_000
    assert SECRET.encode() not in line
    unbounded = json.dumps(
        {"message": "Ended", "code": 1, "error": ended.error, "asked": True, "fatal": False}
    ).encode()
    heard = decode(unbounded)
    assert isinstance(heard, Ended)
    assert len(heard.error) < 2100
    assert SECRET not in heard.error
    standing = decode(
        encode(RehearsalReport("job.py:3", rehearsed=False, how="", rounds=0, seconds=0.0, reason=ended.error))
    )
    assert isinstance(standing, RehearsalReport)
    assert SECRET not in standing.reason


def test_directories_are_not_cut_and_their_list_fits_into_a_line() -> None:
    roots = [f"s3a://bucket/{number}/{'x' * 900}" for number in range(1000)]
    line = encode(Roots(roots))
    assert decode(line) == Roots(roots)
    assert len(line) < LONGEST_LINE


def test_the_log_and_its_listeners_get_no_secret() -> None:
    heard: list[Event] = []
    stream = io.StringIO()
    log = Log(stream=stream, listeners=[heard.append], as_json=True)
    log.say("unreachable", f"https://me:{SECRET}@api is down", cause=f"password={SECRET}", tries=3)
    assert SECRET not in stream.getvalue()
    assert json.loads(stream.getvalue())["tries"] == 3
    assert SECRET not in heard[0].sentence + str(heard[0].facts)
