"""The cluster under test, through kubectl: what any Kubernetes offers, and for the local cluster also its machines."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from e2e.cluster.build import KUBE
from e2e.cluster.choice import Given, Kind, Local, Refused, Wishes, choose
from e2e.cluster.layout import CONTEXT, CONTROL, NETWORKS, REPOSITORY, Layout
from e2e.cluster.machines import machines
from e2e.harness import manifests

T = TypeVar("T")

#: What befalls machines of the local cluster, and what undoes it.
_UNDONE = {"crash": "revive", "cut": "heal", "freeze-api": "thaw-api"}


class NoCluster(Exception):
    """One line that says how to get one."""


class Failed(Exception):
    """A command that ended with another status than 0; ``said`` is what it wrote to standard error, ``printed`` the rest."""

    def __init__(self, command: Sequence[str], status: int, said: str, printed: str = "") -> None:
        super().__init__(f"{' '.join(command)} ended with {status}: {said.strip()}")
        self.status = status
        self.said = said
        self.printed = printed


@dataclass(frozen=True, slots=True)
class Finished:
    """A pod that ran to its end."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class Proxy:
    """The API server at a port of this machine, already authorized."""

    port: int

    def get(self, path: str, timeout: float = 10) -> str:
        """Raises ``OSError`` when the API server does not answer, ``Failed`` when it refuses."""
        return self._request("GET", path, timeout)

    def delete(self, path: str, timeout: float = 10) -> None:
        """Returns when the API server has taken note. Raises as ``get`` does."""
        self._request("DELETE", path, timeout)

    def _request(self, method: str, path: str, timeout: float) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            content = answer.read().decode()
        finally:
            connection.close()
        if answer.status not in (200, 202):
            raise Failed([method, path], answer.status, content)
        return content


@dataclass(frozen=True, slots=True)
class Cluster:
    """``local``: the cluster of ``e2e/cluster``, whose machines can be made to fail. ``owned``: this run brought it up."""

    program: str
    kubeconfig: str
    context: str
    local: bool
    owned: bool

    def kubectl(self, *arguments: str, stdin: str = "", timeout: float = 60) -> str:
        """What it prints. Raises ``Failed``, or ``subprocess.TimeoutExpired`` when the API server does not answer."""
        command = [self.program, "--context", self.context, *arguments]
        done = subprocess.run(
            command, env=self.environment(), input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise Failed(["kubectl", *arguments], done.returncode, done.stderr, done.stdout)
        return done.stdout

    def environment(self) -> dict[str, str]:
        """For programs that talk to the cluster by themselves."""
        others = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
        return {**os.environ, "KUBECONFIG": self.kubeconfig, "no_proxy": ",".join(filter(None, [others, NETWORKS]))}

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A program from here that talks to the cluster by itself. The caller reads what it prints, and ends it."""
        environment = self.environment()
        environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY / "hooks"), str(REPOSITORY)])
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)

    @contextmanager
    def following(self, namespace: str, pod: str, path: Path) -> Iterator[Path]:
        """What a pod has said last, and says from now on, goes to ``path``, also when it is deleted and can be asked no more."""
        command = [self.program, "--context", self.context, "logs", "--follow", "--tail=1", pod, "-n", namespace]
        with path.open("wb") as out:
            follower = subprocess.Popen(command, env=self.environment(), stdout=out, stderr=subprocess.DEVNULL)
        try:
            await_value(lambda: path.stat().st_size or None, 30, f"no log of {pod}", interval=0.05)
            yield path
        finally:
            follower.terminate()
            follower.wait()

    def get(self, namespace: str, *what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", "--namespace", namespace, *what, "--output", "json"))
        return found

    @contextmanager
    def cordoned(self, *nodes: str) -> Iterator[None]:
        """Nothing new is placed on these nodes."""
        self.kubectl("cordon", *nodes)
        try:
            yield
        finally:
            self.kubectl("uncordon", *nodes)

    @contextmanager
    def proxy(self) -> Iterator[Proxy]:
        """For asking again and again: a process for each question would cost more than what is asked about."""
        command = [self.program, "--context", self.context, "proxy", "--port", "0"]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, text=True) as forwarding:
            try:
                assert forwarding.stdout is not None
                port = re.search(r":(\d+)", forwarding.stdout.readline())
                if port is None:
                    raise NoCluster("kubectl proxy does not start")
                yield Proxy(int(port.group(1)))
            finally:
                forwarding.terminate()

    @contextmanager
    def forward(self, namespace: str, service: str, port: int) -> Iterator[int]:
        """A port of this machine that leads to a Service's, through the API server and so into whichever cluster."""
        command = [self.program, "--context", self.context, "--namespace", namespace]
        forwarding = subprocess.Popen(
            [*command, "port-forward", f"service/{service}", f":{port}"],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with forwarding:
            assert forwarding.stdout is not None
            # It says a line for each connection, and stands still when two thousand of them are not read.
            reading = threading.Thread(target=deque, args=(forwarding.stdout, 0), daemon=True)
            try:
                said = forwarding.stdout.readline()
                found = re.search(r"127\.0\.0\.1:(\d+)", said)
                if found is None:
                    raise NoCluster(f"port-forward to {service}: {said.strip()}")
                reading.start()
                yield int(found.group(1))
            finally:
                forwarding.terminate()
                if reading.ident is not None:
                    reading.join()

    def apply(self, namespace: str, *objects: Mapping[str, Any]) -> None:
        content = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--namespace", namespace, "--filename", "-", stdin=content)

    def run_pod(self, namespace: str, name: str, *arguments: str, seconds: float = 60, **settings: Any) -> Finished:
        """Run ``probe`` with these arguments in a pod to its end, good or bad."""
        self.apply(namespace, manifests.pod(name, arguments, restart="Never", **settings))

        def end() -> dict[str, Any] | None:
            status: dict[str, Any] = self.get(namespace, "pod", name)["status"]
            return status if status["phase"] in {"Succeeded", "Failed"} else None

        status = await_value(end, seconds, f"pod {namespace}/{name} did not end")
        output = self.kubectl("logs", "--namespace", namespace, name)
        self.kubectl("delete", "pod", "--namespace", namespace, name, "--wait=false")
        return Finished(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], output)

    def await_ready(self, namespace: str, what: str, seconds: float = 60) -> None:
        self.kubectl(
            "wait",
            "--namespace",
            namespace,
            "--for=condition=Ready",
            what,
            f"--timeout={seconds:.0f}s",
            timeout=seconds + 10,
        )

    def machine(self, *command: str, timeout: float = 300) -> str:
        """A command of the local cluster: ``machine("crash", "2")``."""
        return run([sys.executable, "-m", "e2e.cluster", *command], timeout=timeout)

    @contextmanager
    def failing(self, fault: str, *node: str) -> Iterator[float]:
        """Undone at the end, in any case: the next test needs whole machines. Yields since when, in seconds since 1970."""
        at = time.time()
        self.machine(fault, *node)
        try:
            yield at
        finally:
            self.machine(_UNDONE[fault], *node)

    def load(self, archive: Path, *, nodes: Sequence[int] = ()) -> None:
        """Bring an image there from a file. ``nodes`` saves time where that can be chosen: in the local cluster."""
        if self.local:
            self.machine("load", str(archive), *(["--nodes", ",".join(map(str, nodes))] if nodes else []))
        elif self.context.startswith("kind-"):
            run(
                ["kind", "load", "image-archive", str(archive), "--name", self.context.removeprefix("kind-")],
                timeout=600,
            )
        elif self.context == "minikube":
            run(["minikube", "image", "load", str(archive)], timeout=600)
        elif command := os.environ.get("E2E_LOAD", ""):
            run([*command.split(), str(archive)], timeout=600)
        else:
            raise NoCluster(
                f"how does an image get into {self.context}? E2E_LOAD names a command that is given an archive"
            )


def attach(environ: Mapping[str, str]) -> Cluster:
    """The cluster that ``make e2e`` chose, or the one a developer keeps: KUBECONFIG, else the local one if it is up."""
    wishes = Wishes.of(environ)
    layout = Layout.default()
    if not wishes.kubeconfig and not wishes.context:
        if CONTROL not in machines():
            raise NoCluster("no cluster: call make e2e, or e2e/cluster/cluster up, or set KUBECONFIG")
        wishes = Wishes(str(layout.kubeconfig), CONTEXT)
    program = find_kubectl(layout)
    current = current_context(program, wishes.kubeconfig) if not wishes.context else ""
    match choose(wishes, current_context=current, kind=False, root=False):
        case Given(context):
            local = Path(wishes.kubeconfig).absolute() == layout.kubeconfig.absolute()
            only = wishes.kubeconfig if local else _only(program, wishes.kubeconfig, context)
            return Cluster(program, only, context, local=local, owned=environ.get("E2E_OWNED") == "1")
        case Refused(reason):
            raise NoCluster(reason)
        case Kind() | Local():
            raise AssertionError("a kubeconfig was given")


def _only(program: str, kubeconfig: str, context: str) -> str:
    """A kubeconfig with this context alone: what the tests start uses the current one, and must not find another."""
    given = Cluster(program, kubeconfig, context, local=False, owned=False)
    target = REPOSITORY / "build" / "e2e" / "kubeconfig"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(given.kubectl("config", "view", "--minify", "--flatten", "--raw"), encoding="utf-8")
    return str(target)


def find(program: str, layout: Layout) -> str | None:
    """Ours where it was compiled: of the same version as the local cluster."""
    ours = KUBE.built(layout) / program
    return str(ours) if ours.exists() else shutil.which(program)


def find_kubectl(layout: Layout) -> str:
    found = find("kubectl", layout)
    if found is None:
        raise NoCluster("no kubectl: install it, or run tools/setup.sh cluster, which compiles one")
    return found


def current_context(program: str, kubeconfig: str) -> str:
    # the option of that name takes one file, the variable a list of them
    environment = {**os.environ, "KUBECONFIG": kubeconfig}
    command = [program, "config", "current-context"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()


def run(command: Sequence[str], *, timeout: float) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise Failed(command, done.returncode, done.stderr)
    return done.stdout


def await_value(look: Callable[[], T | None], seconds: float, otherwise: str, interval: float = 0.2) -> T:
    """The first thing that ``look`` finds; asks the cluster, so it is not for measuring."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{otherwise} within {seconds:.0f} s")
        time.sleep(interval)


@contextmanager
def looking(look: Callable[[], T]) -> Iterator[list[T]]:
    """What ``look`` found, once before and a few times a second meanwhile; raises what it raised, at the end.

    A server that does not answer is asked again.
    """
    found = [look()]
    ended = threading.Event()

    def look_again() -> None:
        while not ended.wait(0.2):
            with suppress(OSError):
                found.append(look())

    with ThreadPoolExecutor(1) as threads:
        looks = threads.submit(look_again)
        try:
            yield found
        finally:
            ended.set()
        looks.result()
