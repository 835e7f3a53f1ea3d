"""Images that Docker holds, as archives that a cluster can load."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from e2e.cluster.layout import REPOSITORY
from e2e.harness.kubectl import NoCluster, run

UNDERSTUDY = "understudy:dev"
FLIGHTS = "understudy-flights:dev"
#: Another image of the same job, to roll out.
NEXT_FLIGHTS = "understudy-next-flights:e2e"
#: The same with what Spark needs to read Kafka; and a broker.
KAFKA_FLIGHTS = "understudy-kafka-flights:e2e"
BROKER = "understudy-kafka-broker:e2e"
#: What the charts object-store and zookeeper run, in one.
COMPANIONS = "understudy-companions:e2e"

_ARCHIVES = REPOSITORY / "build" / "e2e" / "images"


def build() -> None:
    """The image, and the example's on top of it. What has not changed takes seconds."""
    subprocess.run(["make", "image"], cwd=REPOSITORY, check=True)
    docker_build("--tag", FLIGHTS, "examples")


def docker_build(*arguments: str, dockerfile: str = "") -> None:
    """Without attestations, which change an image's digest every time, and which its archive names and does not hold.

    So ``kind load`` fails with them: https://github.com/kubernetes-sigs/kind/issues/3795. Docker 29 adds them by default.
    """
    subprocess.run(
        ["docker", "build", "--quiet", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"},
        input=dockerfile,
        text=True,
        check=True,
    )


def next_flights() -> Path:
    """The example's image with one variable more: another digest, the same job."""
    _identity(FLIGHTS)
    docker_build("--tag", NEXT_FLIGHTS, "-", dockerfile=f"FROM {FLIGHTS}\nENV ROLLED_OUT=1\n")
    return saved(NEXT_FLIGHTS)


def kafka(name: str) -> Path:
    """One of the two of ``e2e/kafka``, built when a test wants it: Maven has to fetch jars that no other image needs."""
    target = {KAFKA_FLIGHTS: "flights", BROKER: "broker"}[name]
    _identity(FLIGHTS)
    subprocess.run([str(REPOSITORY / "tools" / "setup.sh"), "kafka"], check=True)
    docker_build("--target", target, "--tag", name, "--file", "e2e/kafka/Dockerfile", "build/kafka")
    return saved(name)


def companions() -> Path:
    """Stands in for the images of two charts: versitygw and ZooKeeper, where those have them."""
    build_companions()
    return saved(COMPANIONS)


def build_companions() -> None:
    """Leaves the image with Docker; raises ``NoCluster`` where Docker or the product's image is missing."""
    _identity(UNDERSTUDY)
    subprocess.run([str(REPOSITORY / "tools" / "setup.sh"), "companions"], cwd=REPOSITORY, check=True)
    docker_build("--tag", COMPANIONS, "--file", "e2e/companions/Dockerfile", "build/companions")


def saved(name: str) -> Path:
    """An archive of the image; written once for each of its versions."""
    archive = _ARCHIVES / f"{name.partition(':')[0]}-{_identity(name)[:16]}.tar"
    if not archive.exists():
        _ARCHIVES.mkdir(parents=True, exist_ok=True)
        for old in _ARCHIVES.glob(f"{name.partition(':')[0]}-{'[0-9a-f]' * 16}.tar"):
            old.unlink()
        partial = archive.with_suffix(".part")
        run(["docker", "save", "--output", str(partial), name], timeout=300)
        partial.rename(archive)
    return archive


def _identity(name: str) -> str:
    if shutil.which("docker") is None:
        raise NoCluster(f"{name} is made with Docker, and there is none: call make e2e, or make image")
    known = subprocess.run(
        ["docker", "image", "inspect", "--format", "{{.Id}}", name], capture_output=True, text=True, check=False
    )
    if known.returncode:
        raise NoCluster(
            f"there is no image {name}: call make e2e, or make image and docker build --tag {name} examples"
        )
    return known.stdout.strip().removeprefix("sha256:")
