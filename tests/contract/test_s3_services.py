"""``--ha s3``: what a replica and a command say of a bucket that cannot be used, and that commands find what replicas keep there."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit import s3
from tests.contract.backends import PATIENT, bucket_settings
from understudy.documents.s3 import S3DocumentStore
from understudy.errors import SettingsError
from understudy.events import Log
from understudy.ha.replicas import ReplicaStore
from understudy.ha.services import HighAvailabilityServices
from understudy.services import registry
from understudy.services.plugin import ServicesSettings
from understudy.services.registry import Choice, choose


def confs(port: int, **others: str) -> list[str]:
    told = {**s3.settings(port), **{f"fs.s3a.{key.replace('_', '.')}": value for key, value in others.items()}}
    return [word for key, value in told.items() for word in ("--conf", f"spark.hadoop.{key}={value}")]


def connected(port: int, tmp_path: Path, address: str, *, writes: bool = True) -> HighAvailabilityServices:
    told = ServicesSettings(
        cluster="flights",
        lock="s3",
        request_timeout=PATIENT,
        ha_dir=tmp_path / "ha",
        address=address,
        submit=tuple(confs(port)),
        log=Log(stream=io.StringIO()) if writes else None,
    )
    return asyncio.run(registry.connect("s3", told))


def objects(port: int, prefix: str) -> list[str]:
    return asyncio.run(S3DocumentStore(s3.BUCKET, prefix, bucket_settings(port), PATIENT).names())


def test_the_lock_and_the_services_name_each_other() -> None:
    assert choose("s3", "") == choose("", "s3") == Choice("s3", "s3")


@pytest.mark.parametrize(
    "address",
    ["", "bucket", "s3a://bucket", "s3a://", "s3a:///p", "gs://bucket/p", "s3a://bucket/a b", "s3a://bucket//"],
)
def test_what_is_no_place_is_refused_with_what_is_one(server: int, tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError, match=r"--ha-address: .*s3a://BUCKET/PREFIX"):
        connected(server, tmp_path, address)


def test_documents_and_the_lock_are_below_the_address_and_the_claims_are_not(server: int, tmp_path: Path) -> None:
    services = connected(server, tmp_path, f"s3a://{s3.BUCKET}/{tmp_path.name}/")
    assert services.lock is services.documents
    assert services.claims is None
    assert services.place == f"below s3a://{s3.BUCKET}/{tmp_path.name}"
    assert services.requests["writes"] > 0


def test_a_command_writes_nothing_by_looking(server: int, tmp_path: Path) -> None:
    with s3.S3Proxy(server).running() as proxy:
        connected(proxy.port, tmp_path, f"s3a://{s3.BUCKET}/{tmp_path.name}", writes=False)
        assert [line.split(" ")[0] for line in proxy.seen] == ["GET"]


@pytest.mark.parametrize(
    ("place", "others", "code", "said"),
    [
        ("nowhere", {}, 2, "--ha-address: 'nowhere' is no place for documents"),
        (f"s3a://{s3.BUCKET}/p", {"secret_key": "wrong"}, 7, "the object store refuses it"),
        ("s3a://no-such-bucket/p", {}, 4, "there is no such bucket"),
        (f"s3a://{s3.BUCKET}/p", {"endpoint": "http://127.0.0.1:9"}, 8, "Check the endpoint"),
        (f"s3a://{s3.BUCKET}/p", {"proxy_host": "p"}, 2, "fs.s3a.proxy.host"),
    ],
)
@pytest.mark.parametrize("command", ["run", "status"])
def test_a_bucket_that_cannot_be_used_is_one_error_at_start(
    server: int, tmp_path: Path, command: str, place: str, others: dict[str, str], code: int, said: str
) -> None:
    (tmp_path / "job.py").write_text("")
    words = ["--ha", "s3", "--ha-address", place, "--cluster-id", "flights", *confs(server, **others)]
    last = [str(tmp_path / "job.py")] if command == "run" else []
    ended = understudy(command, "--ha-dir", str(tmp_path / "ha"), *words, *last)
    assert said in ended.stderr.strip().splitlines()[-1], ended.stderr
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not files_in(tmp_path / "ha")


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_a_bucket_without_conditional_writes_is_refused_before_a_document_is_written(
    server: int, tmp_path: Path, header: str
) -> None:
    (tmp_path / "job.py").write_text("")
    with s3.S3Proxy(server, ignored=header.lower()).running() as proxy:
        words = ["--ha", "s3", "--ha-address", f"s3a://{s3.BUCKET}/{tmp_path.name}", *confs(proxy.port)]
        ended = understudy("run", "--ha-dir", str(tmp_path / "ha"), *words, str(tmp_path / "job.py"))
    assert (ended.returncode, f"({header})" in ended.stderr.strip().splitlines()[-1]) == (3, True), ended.stderr
    assert objects(server, tmp_path.name) == []
    assert not files_in(tmp_path / "ha")


def test_commands_find_what_replicas_keep_in_the_bucket(server: int, tmp_path: Path) -> None:
    address = f"s3a://{s3.BUCKET}/{tmp_path.name}"
    documents = S3DocumentStore(s3.BUCKET, tmp_path.name, bucket_settings(server), PATIENT)
    asyncio.run(ReplicaStore(documents, "flights-replicas").join("flights"))
    words = ["--ha", "s3", "--ha-address", address, *confs(server)]
    ended = understudy("status", *words)
    assert (ended.returncode, f"cluster flights below {address}" in ended.stderr) == (9, True), ended.stderr
    ended = understudy("status", *words, "--cluster-id", "trains")
    assert (ended.returncode, "There is flights" in ended.stderr) == (2, True), ended.stderr


def test_a_command_that_reached_a_bucket_ends_without_taking_the_interpreter_down(server: int) -> None:
    """Threads of the client abort a process that does, now and then, and the exit code is lost."""
    program = (
        "import atexit, sys; from understudy.cli.main import main\n"
        "atexit.register(print, 'taken down'); sys.argv = ['understudy', *sys.argv[1:]]; main()"
    )
    words = ["status", "--ha", "s3", "--ha-address", f"s3a://{s3.BUCKET}/nothing", *confs(server)]
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr


def files_in(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def understudy(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "KUBERNETES_SERVICE_HOST"}
    command = [sys.executable, "-m", "understudy.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
