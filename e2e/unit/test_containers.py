"""Which image a server of the tests runs in, and why containers are not to be had. Docker is a script that notes what it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from testcontainers.core.config import testcontainers_config

from e2e.harness import containers, images
from testkit.programs import program
from testkit.s3 import Missing

ZOOKEEPER = "docker.io/library/zookeeper:3.9.4"

#: It holds the images whose names are in the file ``held``, and pulls those in the file ``registry``. A name with ``label`` has ours.
DOCKER = """\
echo "$*" >>{here}/noted
case "$1 $*" in
    info*) exit {answers} ;;
    image*--format*) grep -q "^$5 ours" {here}/held && echo yes; grep -q "^$5" {here}/held ;;
    image*) grep -q "^$3" {here}/held ;;
    pull*) grep -q "^$3" {here}/registry ;;
esac
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    docker(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(testcontainers_config, "_ryuk_disabled", True)
    monkeypatch.setattr(images, "build_companions", lambda: None)
    (tmp_path / "held").write_text(f"{images.UNDERSTUDY}\n")
    (tmp_path / "registry").touch()
    return tmp_path


def docker(here: Path, answers: int = 0) -> None:
    program(here / "bin" / "docker", DOCKER.format(here=here, answers=answers))


def tagged(here: Path) -> list[str]:
    return [line for line in (here / "noted").read_text().splitlines() if line.startswith("tag ")]


class TestTheImageOfAServer:
    def test_one_that_docker_holds_is_taken(self, here: Path) -> None:
        (here / "held").write_text(f"{ZOOKEEPER}\n")
        assert containers.charts_image("zookeeper") == ZOOKEEPER
        assert "pull" not in (here / "noted").read_text()
        assert tagged(here) == []

    def test_one_that_a_registry_has_is_pulled(self, here: Path) -> None:
        (here / "registry").write_text(f"{ZOOKEEPER}\n")
        assert containers.charts_image("zookeeper") == ZOOKEEPER
        assert tagged(here) == []

    def test_without_a_registry_ours_takes_its_name(self, here: Path) -> None:
        assert containers.charts_image("zookeeper") == ZOOKEEPER
        assert tagged(here) == [f"tag {images.COMPANIONS} {ZOOKEEPER}"]

    def test_ours_is_made_again_and_no_registry_is_asked(self, here: Path) -> None:
        (here / "held").write_text(f"{images.UNDERSTUDY}\n{ZOOKEEPER} ours\n")
        assert containers.charts_image("zookeeper") == ZOOKEEPER
        assert tagged(here) == [f"tag {images.COMPANIONS} {ZOOKEEPER}"]
        assert "pull" not in (here / "noted").read_text()

    def test_without_a_registry_and_without_the_products_image_there_is_none(self, here: Path) -> None:
        (here / "held").write_text("")
        with pytest.raises(Missing, match="there is no image understudy:dev: run make image"):
            containers.charts_image("zookeeper")


class TestWhyThereAreNoContainers:
    def test_no_daemon_answers(self, here: Path) -> None:
        docker(here, answers=1)
        with pytest.raises(Missing, match="no Docker daemon answers"):
            containers.need_docker()

    def test_docker_is_on_another_machine(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
        with pytest.raises(Missing, match="DOCKER_HOST names another machine"):
            containers.need_docker()

    def test_there_is_no_docker(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(here))
        with pytest.raises(Missing, match="containers need Docker, and there is none"):
            containers.need_docker()

    @pytest.mark.parametrize("there", [True, False])
    def test_what_removes_the_containers_of_a_killed_run_is_used_where_there_is_one(
        self, here: Path, monkeypatch: pytest.MonkeyPatch, there: bool
    ) -> None:
        monkeypatch.setattr(testcontainers_config, "_ryuk_disabled", False)
        (here / "registry").write_text(f"{testcontainers_config.ryuk_image}\n" if there else "")
        containers.need_docker()
        assert testcontainers_config.ryuk_disabled is not there
