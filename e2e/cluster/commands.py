"""What the commands do. Every one may be given twice; none asks anything."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from e2e.cluster import machines
from e2e.cluster.build import CONTROL_NAMES, DNS, KUBE, NODE_NAMES, TINY, Module, build, is_built
from e2e.cluster.credentials import make_credentials
from e2e.cluster.image import image_names
from e2e.cluster.layout import CONTROL, MOST_NODES, NETWORKS, SOURCES, Layout, Problem, node_name
from e2e.cluster.machines import Machine, await_that
from e2e.cluster.saying import say

#: Files that a machine finds in /var/lib/machine, beside everything in etc/.
_CONTROL_FILES = (
    *("ca.crt", "ca.key", "accounts.key", "api.crt", "api.key", "client.crt", "client.key", "tokens.csv"),
    *("admin.kubeconfig", "kcm.kubeconfig", "scheduler.kubeconfig"),
)
_NODE_FILES = ("ca.crt", "kubelet.crt", "kubelet.key", "proxy.kubeconfig")


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Two callers at once wait for each other."""
    layout.home.mkdir(parents=True, exist_ok=True)
    with (layout.home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ----------------------------------------------------------------------------------------------------------- up and down
def compile_all(layout: Layout, modules: tuple[Module, ...]) -> None:
    with alone(layout):
        build(layout, modules=modules)


def up(layout: Layout, nodes: int) -> None:
    names = [node_name(number) for number in range(1, nodes + 1)]
    _require_root()
    if missing := machines.missing_tools():
        raise Problem(f"run tools/setup.sh cluster; missing: {', '.join(missing)}")
    with alone(layout):
        if not is_built(layout):
            build(layout)
        began = time.monotonic()
        control = _control_plane(layout)
        running = machines.machines()
        for name in names:
            if name not in running:
                _switch_on(layout, control, name)
        _await_ready(layout, names)
        say(f"{len(names)} nodes are Ready, {time.monotonic() - began:.1f} s after the start; {layout.kubeconfig}")


def _control_plane(layout: Layout) -> Machine:
    running = machines.machines()
    if CONTROL in running:
        machines.plug_in_the_world(running[CONTROL])
        return running[CONTROL]
    if rest := machines.leftovers(layout):
        say(f"removing the rest of another cluster: {', '.join(rest)}")
        _down(layout)
    began = time.monotonic()
    layout.state.mkdir(parents=True)
    before = machines.read_sysctls()
    layout.sysctls.write_text(json.dumps(before))
    machines.write_sysctls(machines.raised(before))
    make_credentials(layout)
    _write_disk(layout, CONTROL)
    control = machines.boot(layout, CONTROL)
    machines.plug_in_the_world(control)
    await_that(lambda: _answers(layout, "get", "--raw", "/readyz"), 120, _see("the API server", layout, CONTROL), 0.3)
    say(f"control plane: {time.monotonic() - began:.1f} s")
    return control


def _switch_on(layout: Layout, control: Machine, name: str) -> None:
    say(f"{name}: switched on")
    machines.make_cgroups(name)
    _write_disk(layout, name)
    machines.plug_in(control, machines.boot(layout, name))


def _await_ready(layout: Layout, names: Sequence[str]) -> None:
    def ready() -> bool:
        return set(names) <= set(_ready_nodes(layout))

    await_that(ready, 180, f"not Ready in 180 s; see {layout.state}/node*/log/kubelet.log", 0.5)
    # Pods are refused until the controllers have made this, a moment later.
    await_that(lambda: _answers(layout, "get", "serviceaccount", "default"), 60, "no service account appears", 0.3)


def _write_disk(layout: Layout, name: str) -> None:
    """What the machine boots from. Repeated at every start; what the machine itself wrote stays."""
    disk = layout.disk(name)
    home = disk / "lib" / "machine"
    for directory in (home / "bin", home / "images", home / "plugins", disk / "log", disk / "tmp"):
        directory.mkdir(parents=True, exist_ok=True)
    if not (disk / "run").is_symlink():
        (disk / "run").symlink_to("/run")
    shutil.copytree(SOURCES / "etc", home / "etc", dirs_exist_ok=True)
    programs = CONTROL_NAMES if name == CONTROL else NODE_NAMES
    for program in programs:
        _link(KUBE.built(layout) / "kube", home / "bin" / program)
    if name == CONTROL:
        _link(DNS.built(layout) / "coredns", home / "bin" / "coredns")
    else:
        _link(TINY.built(layout) / "pause.tar", home / "images" / "pause.tar")
    for file in _CONTROL_FILES if name == CONTROL else _NODE_FILES:
        shutil.copy(layout.credentials / file, home / file)
    if name != CONTROL:
        shutil.copy(layout.credentials / f"{name}.kubeconfig", home / "kubelet.kubeconfig")


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


def down(layout: Layout) -> None:
    if not machines.leftovers(layout):
        say("nothing runs, nothing is left")
        return
    _require_root()
    with alone(layout):
        began = time.monotonic()
        _down(layout)
        say(f"down, nothing left behind ({time.monotonic() - began:.1f} s)")


def _down(layout: Layout) -> None:
    running = machines.machines()
    for name in sorted(running, reverse=True):  # nodes first
        machines.power_off(running[name])
    machines.unplug_the_world()
    machines.remove_cgroups()
    with suppress(FileNotFoundError):
        machines.write_sysctls(json.loads(layout.sysctls.read_text()))
    shutil.rmtree(layout.state, ignore_errors=True)
    if rest := machines.leftovers(layout):
        raise Problem(f"left behind: {', '.join(rest)}")


# ---------------------------------------------------------------------------------------------------------------- images
def load(layout: Layout, image: str, nodes: Sequence[int] | None) -> None:
    """Import an image into the nodes that need it, side by side.

    Nodes share nothing. One content store under three containerds would save the copies, but each of them removes what its own
    database does not mention, the others' layers included; and what costs most is unpacking, which every node would do anyway.
    So: name the nodes that will run it, and a second import of what a node has takes no time.
    """
    _require_root()
    running = machines.machines()
    targets = [_node(running, number) for number in nodes] if nodes else _nodes(running)
    if not targets:
        raise Problem("no cluster runs: cluster up")
    began = time.monotonic()
    with alone(layout):
        if Path(image).is_file():
            identity, names = image_names(Path(image))
            _import(layout, targets, identity, ", ".join(names), Path(image))
        else:
            identity = _docker_id(image)
            archive = layout.state / "image.tar"
            if any(not _loaded(layout, node, identity).exists() for node in targets):
                machines.run("docker", "save", "--output", str(archive), image)
            try:
                _import(layout, targets, identity, image, archive)
            finally:
                archive.unlink(missing_ok=True)
    say(f"{image}: in {', '.join(node.name for node in targets)} ({time.monotonic() - began:.1f} s)")


def _import(layout: Layout, targets: Sequence[Machine], identity: str, names: str, archive: Path) -> None:
    def into(node: Machine) -> None:
        done = _loaded(layout, node, identity)
        if not done.exists():
            machines.run("ctr", "--address", node.containerd, "--namespace", "k8s.io", "images", "import", str(archive))
            done.write_text(names + "\n")

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(into, targets))


def _loaded(layout: Layout, node: Machine, identity: str) -> Path:
    """A note on the node's disk; kubelets there never remove an image."""
    return layout.disk(node.name) / "lib" / "machine" / "images" / identity


def _docker_id(image: str) -> str:
    if shutil.which("docker") is None:
        raise Problem(f"{image} is no file, and there is no docker to ask for it")
    return machines.run("docker", "image", "inspect", "--format", "{{.Id}}", image).strip().removeprefix("sha256:")


# ---------------------------------------------------------------------------------------------------------------- faults
def set_cable(_: Layout, number: int, *, up: bool) -> None:
    running = machines.machines()
    node = _node(running, number)
    running[CONTROL].inside("ip", "link", "set", node.name, "up" if up else "down")
    say(f"{node.name}: {'on the network again' if up else 'cut off the network'}")


def crash(layout: Layout, number: int) -> None:
    running = machines.machines()
    name = node_name(number)
    if name not in running:
        say(f"{name}: off already")
        return
    with alone(layout):
        # The cable first: a machine without power sends no farewells, but dying processes' sockets do.
        running[CONTROL].inside("ip", "link", "set", name, "down")
        machines.power_off(running[name])
    say(f"{name}: power lost")


def revive(layout: Layout, number: int) -> None:
    running = machines.machines()
    name = node_name(number)
    if name in running:
        say(f"{name}: on already")
        return
    if CONTROL not in running or not layout.disk(name).is_dir():
        raise Problem(f"{name} was never up: cluster up {number}")
    with alone(layout):
        _switch_on(layout, running[CONTROL], name)


def set_api(_: Layout, *, frozen: bool) -> None:
    os.kill(_api_server(), signal.SIGSTOP if frozen else signal.SIGCONT)
    say(f"API server: {'frozen' if frozen else 'goes on'}")


def _api_server() -> int:
    control = machines.machines().get(CONTROL)
    if control is None:
        raise Problem("no cluster runs: cluster up")
    found = control.process("kube-apiserver")
    if found is None:
        raise Problem("the API server does not run: cluster down, then cluster up")
    return found


def kill(layout: Layout, pod: str, container: str | None, name: str) -> None:
    """Send a signal to a container's first process, which could not send itself SIGKILL."""
    namespace, _, short = pod.partition("/")
    states = json.loads(_kubectl(layout, "get", "pod", "-n", namespace, short, "-o", "json"))["status"][
        "containerStatuses"
    ]
    ids = {state["name"]: state.get("containerID", "").rpartition("/")[2] for state in states}
    chosen = container or next(iter(ids))
    processes = machines.container_processes(ids.get(chosen, "") or "none")
    if not processes:
        raise Problem(f"{pod} has no running container {chosen} (there are {', '.join(ids)})")
    os.kill(processes[0], getattr(signal, f"SIG{name.removeprefix('SIG')}"))
    say(f"{pod}: SIG{name.removeprefix('SIG')} to {chosen} (process {processes[0]})")


# --------------------------------------------------------------------------------------------------------------- looking
def status(layout: Layout) -> None:
    running = machines.machines()
    if not machines.leftovers(layout):
        print(f"no cluster ({'compiled' if is_built(layout) else 'not compiled yet'})")
        return
    if CONTROL in running:
        for name in (*CONTROL_NAMES, "coredns"):
            pid = running[CONTROL].process(name)
            print(f"{name}: {f'{_state(pid)}, process {pid}' if pid else 'does not run'}")
    ready = _ready_nodes(layout) if CONTROL in running and _state(_api_server()) == "runs" else []
    for number in range(1, MOST_NODES + 1):
        name = node_name(number)
        if name in running:
            print(f"{name}: on, {'Ready' if name in ready else 'not known to be Ready'}")
        elif layout.disk(name).is_dir():
            print(f"{name}: off")
    print(f"kubeconfig: {layout.kubeconfig}")


def _state(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return "frozen" if any(line.startswith("State:\tT") for line in lines) else "runs"


def env(layout: Layout) -> None:
    print(f"export KUBECONFIG={shlex.quote(str(layout.kubeconfig))}")
    print(f'export PATH={shlex.quote(str(KUBE.built(layout)))}:"$PATH"')
    print(f'export no_proxy="${{no_proxy:+$no_proxy,}}{NETWORKS}"')


# --------------------------------------------------------------------------------------------------------------- helpers
def _node(running: dict[str, Machine], number: int) -> Machine:
    name = node_name(number)
    if name not in running:
        raise Problem(f"{name} is not on")
    return running[name]


def _nodes(running: dict[str, Machine]) -> list[Machine]:
    return [machine for name, machine in sorted(running.items()) if name != CONTROL]


def _require_root() -> None:
    if os.geteuid() != 0:
        raise Problem(
            "the local cluster needs root (namespaces, cgroups): use sudo, or set KUBECONFIG to another cluster"
        )


def _kubectl(layout: Layout, *arguments: str) -> str:
    environment = {"PATH": machines.PATH, "HOME": str(layout.state), "KUBECONFIG": str(layout.kubeconfig)}
    command = [str(KUBE.built(layout) / "kubectl"), "--request-timeout=5s", *arguments]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Problem(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _answers(layout: Layout, *arguments: str) -> bool:
    try:
        _kubectl(layout, *arguments)
    except Problem:
        return False
    return True


def _ready_nodes(layout: Layout) -> list[str]:
    try:
        nodes: list[dict[str, Any]] = json.loads(_kubectl(layout, "get", "nodes", "-o", "json"))["items"]
    except Problem:
        return []
    return [
        node["metadata"]["name"]
        for node in nodes
        if any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", []))
    ]


def _see(what: str, layout: Layout, machine: str) -> str:
    return f"{what} does not answer; see {layout.disk(machine)}/log/"
