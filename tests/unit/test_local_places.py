"""Which directory a URL is: HA storage, scratch, and a savepoint's place are given in all of these forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.blobs.local import local_directory
from understudy.errors import SettingsError
from understudy.supervisor.backends import ha_storage


@pytest.mark.parametrize("url", ["/srv/ha", "file:///srv/ha", "file:/srv/ha", "/srv/x/../ha"])
def test_every_form_of_a_directory_is_that_directory(url: str) -> None:
    found = local_directory(url)
    assert found is not None
    assert found.resolve() == Path("/srv/ha")
    store = ha_storage(url, (), 1.0)
    assert store is not None
    assert store.place == f"file://{found}"


def test_a_relative_path_is_of_the_directory_one_is_in() -> None:
    assert local_directory("ha") == Path.cwd() / "ha"


@pytest.mark.parametrize("url", ["s3a://bucket/ha", "gs://bucket/ha", "file:ha"])
def test_what_is_no_directory_is_none(url: str) -> None:
    assert local_directory(url) is None


def test_a_place_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="--ha-storage: 'file:ha' is no place for blobs"):
        ha_storage("file:ha", (), 1.0)
