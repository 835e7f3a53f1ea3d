"""Which store ``--ha-storage`` is, and that a job without one loads no client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.blobs.s3 import S3BlobStore
from understudy.errors import SettingsError
from understudy.supervisor.backends import ha_storage


def test_none_is_none() -> None:
    assert ha_storage("", [], 5.0) is None


def test_a_directory_with_and_without_a_scheme(tmp_path: Path) -> None:
    for url in (str(tmp_path / "ha"), f"file://{tmp_path}/ha"):
        store = ha_storage(url, [], 5.0)
        assert store is not None
        assert store.place == f"file://{tmp_path}/ha"


@pytest.mark.parametrize("url", ["s3a://b/a/c", "s3://b/a/c/", "s3a://b//a/c"])
def test_a_bucket_and_a_prefix(url: str) -> None:
    store = ha_storage(url, ["--conf", "spark.hadoop.fs.s3a.endpoint.region=eu-west-1"], 5.0)
    assert isinstance(store, S3BlobStore)
    assert store.place == "s3a://b/a/c"


@pytest.mark.parametrize("url", ["s3a://", "s3a:///a", "gs://b/a", "hdfs://n/a", "://a"])
def test_what_is_no_place_is_refused_with_what_is_one(url: str) -> None:
    with pytest.raises(SettingsError, match=r"--ha-storage: .*s3a://BUCKET/PREFIX"):
        ha_storage(url, [], 5.0)


def test_what_s3a_is_told_and_cannot_be_translated_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"fs.s3a.proxy.host"):
        ha_storage("s3a://b/a", ["--conf", "spark.hadoop.fs.s3a.proxy.host=p"], 5.0)


def test_a_job_without_ha_storage_loads_no_client() -> None:
    program = (
        "import sys; from understudy.supervisor.backends import ha_storage; import understudy.supervisor.supervisor\n"
        "ha_storage('/tmp/nowhere', [], 5.0); assert 'obstore' not in sys.modules\n"
        "ha_storage('s3a://b/a', [], 5.0); assert 'obstore' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
