"""What the cluster is made of, compiled from its Go modules: once for each state of their files, and kept outside checkouts."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.image import write_image
from e2e.cluster.layout import REPOSITORY, SOURCES, Layout, Problem
from e2e.cluster.saying import say
from testkit.versions import kubernetes_version

#: The names under which the one binary is etcd, Kubernetes, kubectl and helm.
CONTROL_NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE_NAMES = ("kubelet", "kube-proxy")
USER_NAMES = ("kubectl", "helm")


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module below ``sources``; ``binaries`` maps what comes out to the package it comes from."""

    name: str
    binaries: tuple[tuple[str, str], ...]
    what: str
    sources: Path = SOURCES

    @property
    def directory(self) -> Path:
        return self.sources / self.name

    def digest(self) -> str:
        """Changes with every file that the compiler reads, and with nothing else."""
        found = hashlib.sha256(platform.machine().encode())
        for file in sorted([*self.directory.rglob("*.go"), *self.directory.glob("go.*")]):
            content = file.read_bytes()
            found.update(f"{file.relative_to(self.directory)} {len(content)}\n".encode() + content)
        return found.hexdigest()[:16]

    def built(self, layout: Layout) -> Path:
        return layout.home / f"{self.name}-{self.digest()}"


KUBE = Module("kube", (("kube", "."),), "etcd, Kubernetes, kubectl and helm (6 to 10 minutes on two cores, once)")
DNS = Module("dns", (("coredns", "."),), "CoreDNS (a minute or two, once)")
TINY = Module("tiny", (("pause", "./pause"), ("probe", "./probe")), "what pods of the tests run")
MODULES = (TINY, DNS, KUBE)
_ELECTORS = REPOSITORY / "e2e" / "electors"
#: What ours share a lock with in the tests; ConfigMaps were dropped from client-go after this release.
CLIENT_GO = {
    "lease": Module("lease", (("lease", "."),), "client-go's elector on a Lease", _ELECTORS),
    "configmap": Module("configmap", (("configmap", "."),), "client-go's elector on a ConfigMap", _ELECTORS),
}


def is_built(layout: Layout) -> bool:
    return all(module.built(layout).is_dir() for module in MODULES)


def build(layout: Layout, *, modules: tuple[Module, ...] = MODULES) -> None:
    """Compile what has changed since it was compiled last. Interrupted, it leaves nothing that would pass for finished."""
    for module in modules:
        done = module.built(layout)
        if done.is_dir():
            say(f"{', '.join(name for name, _ in module.binaries)}: already built")
            continue
        say(f"compiling {module.what}")
        began = time.monotonic()
        unfinished = done.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for binary, package in module.binaries:
            _compile(module, package, unfinished / binary)
        if module is TINY:
            for binary in ("pause", "probe"):
                image = unfinished / f"{binary}.tar"
                write_image(image, f"localhost/{binary}:e2e", {binary: unfinished / binary}, [f"/{binary}"])
        if module is KUBE:
            for name in (*CONTROL_NAMES, *NODE_NAMES, *USER_NAMES):
                (unfinished / name).symlink_to("kube")
        unfinished.rename(done)
        size = sum(file.stat().st_size for file in done.iterdir() if not file.is_symlink())
        say(f"{module.name}: {time.monotonic() - began:.0f} s, {size / 1e6:.0f} MB in {done}")


def _compile(module: Module, package: str, out: Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    command = [_go(), "build", "-trimpath", "-ldflags", _link_flags(module), "-o", str(out), package]
    log = out.with_suffix(".log")
    with log.open("w") as written:
        failed = subprocess.run(
            command,
            cwd=module.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            check=False,
        ).returncode
    if failed:
        raise Problem(f"{' '.join(command)} failed:\n{log.read_text()[-4000:]}")
    log.unlink()


def _link_flags(module: Module) -> str:
    flags = "-s -w"
    if module is KUBE:
        # Components refuse to work with a server whose version they do not know, so the linker tells them theirs.
        version = kubernetes_version()
        major, minor, _ = version.removeprefix("v").split(".")
        package = "k8s.io/component-base/version"
        flags += f" -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
        flags += f" -X k8s.io/client-go/pkg/version.gitVersion={version}"
    return flags


def _go() -> str:
    for candidate in _places_of_go():
        if os.access(candidate, os.X_OK):
            return candidate
    raise Problem("no Go compiler: run tools/setup.sh cluster, which finds or installs one")


def _places_of_go() -> Iterator[str]:
    """Named by set-up, which knows that it is new enough; else what there is, and Go says so itself if it is too old."""
    yield os.environ.get("GO", "")
    yield shutil.which("go") or ""
    yield "/usr/local/go/bin/go"
    yield str(REPOSITORY / "build" / "go" / "go" / "bin" / "go")
