"""Containers of tests, by testcontainers: the servers that two charts install, and the product's image under strict rules.

Where a registry answers, servers run in the images that their charts name. Where none does, ``e2e/companions`` takes those names.
What cannot be had raises ``Missing``, which says why a test is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from e2e.cluster.layout import REPOSITORY
from e2e.harness import images
from testkit import s3, zookeeper
from testkit.s3 import Missing, free_port

#: A label of ``e2e/companions``, by which it is known under another image's name. It is built again when what it holds has changed.
_STAND_IN = "understudy.dev/stand-in"
#: Seconds that a registry has for one image.
_PULL = 300


def need_docker() -> None:
    """Raises ``Missing`` where no Docker answers on this machine.

    Where no registry answers, the containers of a run that is killed stay until they are removed by hand: what removes them elsewhere
    is an image itself.
    """
    if shutil.which("docker") is None:
        raise Missing("containers need Docker, and there is none: make image installs it")
    if not os.environ.get("DOCKER_HOST", "unix://").startswith("unix://"):
        raise Missing("DOCKER_HOST names another machine, and these tests reach their containers on this one")
    asked = _docker("info", "--format", "{{.ServerVersion}}")
    if asked.returncode:
        raise Missing(f"no Docker daemon answers: {asked.stderr.strip()}")
    if not testcontainers_config.ryuk_disabled:
        testcontainers_config.ryuk_disabled = not _held_or_pulled(testcontainers_config.ryuk_image)


def need_image(name: str) -> None:
    """Raises ``Missing`` where Docker does not hold it; never pulls."""
    need_docker()
    if _docker("image", "inspect", name).returncode:
        raise Missing(f"there is no image {name}: run make image")


def charts_image(chart: str) -> str:
    """The image of a chart's server, under the name that the chart gives it. Held, pulled, or built here, in this order."""
    values = yaml.safe_load((REPOSITORY / "charts" / chart / "values.yaml").read_text(encoding="utf-8"))["image"]
    name = f"{values['repository']}:{values['tag']}"
    need_docker()
    stand_in = _docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{_STAND_IN}"}}}}', name)
    if stand_in.stdout.strip() or not _held_or_pulled(name):
        need_image(images.UNDERSTUDY)
        images.build_companions()
        subprocess.run(["docker", "tag", images.COMPANIONS, name], check=True)
    return name


@contextmanager
def s3_server(directory: Path) -> Iterator[int]:
    """versitygw with one empty bucket, in a container; yields its port on this machine."""
    name, port = charts_image("object-store"), free_port()
    (directory / "s3" / s3.BUCKET).mkdir(parents=True)
    server = DockerContainer(name).with_bind_ports(7070, port).with_volume_mapping(directory / "s3", "/data", "rw")
    server.with_kwargs(entrypoint="versitygw", user=_ourselves()).with_command(s3.arguments(":7070", "/data"))
    with server:
        s3.await_port(port, lambda: _ended(server))
        yield port


@dataclass
class ServerInContainer(zookeeper.Server):
    """One server of an ensemble; its container is killed, paused and started again under the same port."""

    container: DockerContainer | None = None

    def start(self) -> None:
        assert self.container is not None
        self.container.get_wrapped_container().start()

    def kill(self) -> None:
        assert self.container is not None
        self.container.get_wrapped_container().kill()
        self.container.wait()

    def freeze(self) -> None:
        assert self.container is not None
        self.container.get_wrapped_container().pause()

    def thaw(self) -> None:
        assert self.container is not None
        self.container.get_wrapped_container().unpause()

    def repair(self) -> None:
        assert self.container is not None
        self.container.reload()
        if self.container.status == "paused":
            self.thaw()
        elif self.container.status != "running":
            self.start()

    def log(self) -> str:
        assert self.container is not None
        return b"".join(self.container.get_logs()).decode(errors="replace")


@contextmanager
def ensemble(directory: Path, *, user: str, password: str) -> Iterator[zookeeper.Ensemble]:
    """Three servers in containers on a network of their own, which serve. ``user`` may authenticate by SASL."""
    name = charts_image("zookeeper")
    peers = "".join(f"server.{number}=zk-{number}:2888:3888\n" for number in (1, 2, 3))
    settings = f"clientPort=2181\nquorumListenOnAllIPs=true\n{peers}"
    with ExitStack() as running:
        network = running.enter_context(Network())
        made = zookeeper.Ensemble()
        for number in (1, 2, 3):
            home, port = directory / f"server-{number}", free_port()
            zookeeper.configure(home, number, settings, home="/server", user=user, password=password)
            server = DockerContainer(name).with_bind_ports(2181, port).with_volume_mapping(home, "/server", "rw")
            server.with_network(network).with_network_aliases(f"zk-{number}")
            # both images have the jars in lib/ of the working directory, and so has the chart's own command
            server.with_kwargs(entrypoint="java", user=_ourselves())
            server.with_command(zookeeper.arguments("lib/*", "/server"))
            made.servers.append(ServerInContainer(number, home, port, "", container=running.enter_context(server)))
        made.whole()
        yield made


@contextmanager
def strict(
    arguments: str, *, user: str, environment: Mapping[str, str] | None = None, files: Mapping[Path, str] | None = None
) -> Iterator[DockerContainer]:
    """The product's image as a cluster with strict rules runs it, and without a network.

    It has no capability, no new privilege and a read-only root; ``/tmp`` is mounted noexec. ``files`` are mounted read-only.
    """
    container = DockerContainer(images.UNDERSTUDY).with_command(arguments).with_envs(**(environment or {}))
    for held, inside in (files or {}).items():
        container.with_volume_mapping(held, inside, "ro")
    container.with_tmpfs_mount("/tmp", "noexec,mode=1777").with_tmpfs_mount("/var/lib/understudy", "mode=1777")
    container.with_kwargs(
        user=user,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        network_mode="none",
        hostname="localhost",
    )
    with container:
        yield container


def _ended(server: DockerContainer) -> str:
    """What it wrote, once it has ended; empty while it runs."""
    server.reload()
    return "" if server.status == "running" else b"".join(server.get_logs()).decode(errors="replace") or server.status


def _ourselves() -> str:
    """What servers leave in the directories of a test is the tests' own to remove."""
    return f"{os.getuid()}:{os.getgid()}"


def _held_or_pulled(name: str) -> bool:
    if not _docker("image", "inspect", name).returncode:
        return True
    try:
        return not _docker("pull", "--quiet", name).returncode
    except subprocess.TimeoutExpired:
        return False


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=_PULL)
