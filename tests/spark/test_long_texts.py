"""What a script's error says is cut, and its secrets are masked, before it leaves the driver's supervisor. No JVM is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.replicas import Replicas, said

pytestmark = pytest.mark.spark

LEADS = "import understudy\nwith understudy.current().step():\n    {}\n"
ENDED = 60.0


@pytest.fixture
def ended(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    """One replica of a script that fails as soon as it leads, after it has ended with 1."""
    monkeypatch.setenv("UNDERSTUDY_LOG", "json")
    replicas = Replicas(tmp_path, LEADS.format(request.param))
    try:
        assert replicas.start("--restart-attempts", "0").wait(ENDED) == 1, replicas.last_lines()
    finally:
        replicas.stop()
    return replicas


def kept(replicas: Replicas) -> bytes:
    """Every byte of the cluster's documents."""
    return b"".join(path.read_bytes() for path in (replicas.home / "ha").rglob("documents/*") if path.is_file())


@pytest.mark.parametrize("ended", ["raise ValueError('bad rows: ' + str(['x' * 100] * 12_000))"], indirect=True)
def test_an_error_of_a_megabyte_fails_the_job_with_its_beginning(ended: Replicas) -> None:
    (told,) = said(ended.home, "driver-died")
    assert told.startswith("ValueError: bad rows: ['xxx")
    assert len(told) < 2100
    assert ended.status()["status"] == "FAILED"
    assert len(kept(ended)) < 100_000


@pytest.mark.parametrize(
    "ended",
    ["raise OSError('https://me:hunter2@db/?password=hunter2&X-Amz-Signature=hunter2 AKIAIOSFODNN7EXAMPLE')"],
    indirect=True,
)
def test_a_secret_in_an_error_is_in_no_document_no_log_line_and_not_in_status(ended: Replicas) -> None:
    (told,) = said(ended.home, "driver-died")
    assert told.startswith("OSError: https://***@db/?password=***")
    ours = [line for line in ended.logs().splitlines() if line.startswith(("{", "understudy:"))]
    assert len(ours) > 3
    for secret in ("hunter2", "AKIAIOSFODNN7EXAMPLE"):
        assert secret.encode() not in kept(ended)
        assert not any(secret in line for line in ours)
        assert secret not in str(ended.status())


FLOODS = """
    import contextlib, os, stat, time
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                for _ in range(100):
                    os.write(fd, b"x" * 65536)
    time.sleep(600)
"""


@pytest.mark.parametrize("ended", [FLOODS], indirect=True)
def test_a_line_without_an_end_costs_the_driver_and_not_its_supervisor(ended: Replicas) -> None:
    (told,) = said(ended.home, "driver-died")
    assert "a line of more than 4194304 bytes" in told
