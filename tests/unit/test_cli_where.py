"""Where commands look for documents: what was typed says it, then the environment, then the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli.where import Where
from understudy.errors import SettingsError

HERE, THERE = Path("/here"), Path("/there")


@pytest.mark.parametrize(
    ("ha_dir", "namespace", "pod", "services"),
    [
        (None, "", False, "filesystem"),
        (None, "", True, "kubernetes"),
        (HERE, "", True, "filesystem"),
        (None, "trains", False, "kubernetes"),
        (THERE, "", False, "filesystem"),
        (THERE, "", True, "kubernetes"),  # a replica in a pod has such a directory, too
        (THERE, "trains", False, "kubernetes"),
        (HERE, "flights", False, "filesystem"),
        (THERE, "flights", False, "kubernetes"),
    ],
)
def test_what_is_typed_goes_against_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, ha_dir: Path | None, namespace: str, pod: bool, services: str
) -> None:
    monkeypatch.setenv("UNDERSTUDY_HA_DIR", f"{THERE}/")
    monkeypatch.setenv("UNDERSTUDY_NAMESPACE", "flights")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1" if pod else "")
    assert Where(ha_dir, "c", namespace, "").services == services
    if namespace != "trains":
        assert Where(ha_dir, "c", namespace, "", "zookeeper").services == "zookeeper"


def test_two_places_that_were_typed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_HA_DIR", raising=False)
    with pytest.raises(SettingsError, match="--ha-dir: a directory of this machine, and a Kubernetes cluster"):
        assert Where(HERE, "c", "trains", "").services
    monkeypatch.setenv("UNDERSTUDY_HA_DIR", str(THERE))
    with pytest.raises(SettingsError, match="--ha-dir: a directory of this machine, and a Kubernetes cluster"):
        assert Where(HERE, "c", "", "context").services
    with pytest.raises(SettingsError, match="--namespace: --ha zookeeper, and a Kubernetes cluster"):
        assert Where(None, "c", "trains", "", "zookeeper").services
