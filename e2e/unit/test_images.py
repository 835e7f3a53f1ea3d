"""How images are built for a cluster's nodes. Docker is a script that notes what it is asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from e2e.harness import images
from testkit.programs import program

BUILD = Path(__file__).parents[2] / "hooks" / "image" / "build"

DOCKER = """\
case "$1 $*" in
    build*) echo "$BUILDX_NO_DEFAULT_ATTESTATIONS $*" >>{noted} ;;
    *Server.Arch*) echo amd64 ;;
    *.Size*) echo 500000000 ;;
    *.Id*) cat {identity} ;;
esac
"""


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a Docker was told to build, each with the variable that leaves attestations out; whose image is ``identity``."""
    noted, identity = tmp_path / "noted", tmp_path / "identity"
    identity.write_text("sha256:one\n")
    program(tmp_path / "bin" / "docker", DOCKER.format(noted=noted, identity=identity))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("BUILDX_NO_DEFAULT_ATTESTATIONS", raising=False)
    return noted


class TestAttestations:
    def test_the_tests_own_images_have_none(self, noted: Path) -> None:
        images.docker_build("--tag", "some:e2e", "-", dockerfile="FROM scratch\n")

        assert noted.read_text() == "1 build --quiet --tag some:e2e -\n"

    def test_the_image_has_none(self, noted: Path, tmp_path: Path) -> None:
        """``hooks/image/build`` in a tree where nothing is real but itself."""
        tree = tmp_path / "tree"
        build = program(tree / "hooks" / "image" / "build", BUILD.read_text())
        for file in ("conf/any", "packages", "slim", "understudy-entry", "understudy-command"):
            program(tree / "hooks" / "image" / file)
        for file in ("understudy/jars/fence.jar", "jvm/target/s3a/aws.jar"):
            program(tree / "hooks" / file)
        for file in ("requirements/image.txt", "requirements/build.txt", ".venv/bin/uv", ".venv/bin/python"):
            program(tree / file)

        ended = subprocess.run([build], capture_output=True, text=True, check=False)

        assert ended.returncode == 0, ended.stderr
        assert "understudy:dev is built: 500 MB" in ended.stdout
        (built,) = noted.read_text().splitlines()
        assert built.startswith("1 build ")
        assert "--tag understudy:dev" in built
