"""The machines of the local cluster: process, network and mount namespaces whose process 1 is ``boot.sh``.

Which machines run is read from the kernel and written down nowhere: a file of process ids would outlive what it names. Nothing
here knows Kubernetes.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.layout import MOST_NODES, SOURCES, Layout, Problem, node_name

#: An argument of every machine's process 1.
MARK = "understudy-machine"
#: The one network link that is seen outside.
OUTSIDE_LINK = "understudy0"
CGROUPS = Path("/sys/fs/cgroup")
TOOLS = (
    "unshare",
    "nsenter",
    "ip",
    "mount",
    "openssl",
    "iptables",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: What kubelets set for the whole machine, and what more than one kubelet on it needs at least.
_SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
_SYSCTLS_RAISED = {
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
    "fs/inotify/max_user_instances": 1024,
}


@dataclass(frozen=True, slots=True)
class Machine:
    """One that runs; ``init`` is its process 1 as seen from outside."""

    name: str
    init: int

    @property
    def containerd(self) -> str:
        """Its containerd's socket, seen from outside."""
        return f"/proc/{self.init}/root/run/containerd/containerd.sock"

    def process(self, name: str) -> int | None:
        """The machine's own process of that name (not one in a container), as seen from outside."""
        for pid in _pids():
            if Path((_arguments(pid) or [""])[0]).name == name and _namespace(pid) == _namespace(self.init):
                return pid
        return None

    def inside(self, *command: str) -> None:
        """Run a command in the machine's network."""
        run("nsenter", "--target", str(self.init), "--net", *command)


def machines() -> dict[str, Machine]:
    found = {}
    for pid in _pids():
        arguments = _arguments(pid)
        if MARK in arguments and _is_first_of_its_namespace(pid):
            name = arguments[arguments.index(MARK) + 1]
            found[name] = Machine(name, pid)
    return found


def boot(layout: Layout, name: str) -> Machine:
    disk = layout.disk(name)
    log = disk / "log" / "boot.log"
    namespaces = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc")
    with log.open("a") as written:
        # Slave: what is unmounted outside goes away inside too, or old mounts would be kept busy as long as the machine runs.
        starting = subprocess.Popen(
            ["unshare", *namespaces, "--propagation", "slave", "bash", str(SOURCES / "boot.sh"), MARK, name, str(disk)],
            env={"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )

    def running() -> bool:
        if starting.poll() is not None:
            raise Problem(f"{name} did not boot: {log.read_text()[-1000:]}")
        return name in machines()

    await_that(running, 20, f"{name} did not boot, see {log}")
    return machines()[name]


def power_off(machine: Machine) -> None:
    """Pull the plug. Returns when the kernel has ended everything that ran on the machine."""
    try:
        handle = os.pidfd_open(machine.init)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not select.select([handle], [], [], 30)[0]:
            raise Problem(
                f"{machine.name} (process {machine.init}) survives SIGKILL: something of it hangs in the kernel"
            )
    finally:
        os.close(handle)


# -------------------------------------------------------------------------------------------------------------- network
def plug_in(control: Machine, node: Machine) -> None:
    """A cable from the node's eth0 to the bridge in ``control``."""
    with suppress(Problem):
        control.inside(
            "ip", "link", "delete", node.name
        )  # a crashed predecessor's; the kernel removes it, but takes its time
    ends = ("type", "veth", "peer", "name", "eth0", "netns", str(node.init))
    run("ip", "link", "add", node.name, "netns", str(control.init), *ends)
    control.inside("ip", "link", "set", node.name, "master", "lan", "up")


def plug_in_the_world(control: Machine) -> None:
    """A cable from outside, with ways to nodes, pods and (over node 1) Services. With it goes everything that it brought."""
    if link_exists(OUTSIDE_LINK):
        return
    # process 1 is seen before it has made the bridge
    await_that(lambda: _has_link(control, "lan"), 20, "control has no network; see control/log/boot.log")
    run("ip", "link", "add", OUTSIDE_LINK, "type", "veth", "peer", "name", "world", "netns", str(control.init))
    try:
        control.inside("ip", "link", "set", "world", "master", "lan", "up")
        run("ip", "address", "add", "10.99.0.254/24", "dev", OUTSIDE_LINK)
        run("ip", "link", "set", OUTSIDE_LINK, "up")
        for number in range(1, MOST_NODES + 1):
            run("ip", "route", "add", f"10.244.{number}.0/24", "via", f"10.99.0.{10 + number}")
        run("ip", "route", "add", "10.96.0.0/16", "via", "10.99.0.11")
    except Problem:
        unplug_the_world()  # half of it would pass for all of it
        raise


def _has_link(machine: Machine, name: str) -> bool:
    try:
        return f" {name}:" in Path(f"/proc/{machine.init}/net/dev").read_text()
    except OSError:
        return False


def link_exists(name: str) -> bool:
    return Path("/sys/class/net", name).exists()


def unplug_the_world() -> None:
    with suppress(Problem):
        run("ip", "link", "delete", OUTSIDE_LINK)  # the control plane's end may have taken it along already
    await_that(lambda: not link_exists(OUTSIDE_LINK), 10, f"the link {OUTSIDE_LINK} does not go away")


# -------------------------------------------------------------------------------------------------------------- cgroups
def make_cgroups(node: str) -> None:
    """A kubelet makes all cgroups but its root's; one root each, or kubelets would clean up after each other."""
    if (CGROUPS / "cgroup.controllers").exists():
        for controller in (CGROUPS / "cgroup.controllers").read_text().split():
            with suppress(OSError):
                (CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
        _cgroup(CGROUPS, node).mkdir(exist_ok=True)
        return
    for hierarchy in _hierarchies():
        if hierarchy.name != "unified":  # holds no controllers here; runc makes what it wants there
            _cgroup(hierarchy, node).mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / file).exists():
                (_cgroup(hierarchy, node) / file).write_text((hierarchy / file).read_text())


def cgroups() -> list[Path]:
    """Those of ours that exist, in all hierarchies."""
    every = [_cgroup(hierarchy, node_name(n)) for hierarchy in _hierarchies() for n in range(1, MOST_NODES + 1)]
    return [cgroup for cgroup in every if cgroup.is_dir()]


def remove_cgroups() -> None:
    def removed() -> bool:
        for root in cgroups():
            for directory, _, _ in os.walk(root, topdown=False):
                with suppress(OSError):  # busy for some milliseconds after the last process has gone
                    Path(directory).rmdir()
        return not cgroups()

    await_that(removed, 10, "cgroups stay behind: something still runs in them")


def container_processes(container: str) -> list[int]:
    """The processes of a container on any node, as seen from outside; the container's first one comes first."""
    for root in cgroups():
        for directory, _, _ in os.walk(root):
            if Path(directory).name == container:
                pids = [int(pid) for pid in (Path(directory) / "cgroup.procs").read_text().split()]
                return sorted(pids, key=lambda pid: _parent(pid) in pids)
    return []


def _cgroup(hierarchy: Path, node: str) -> Path:
    return hierarchy / f"understudy-{node}"


def _hierarchies() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


# -------------------------------------------------------------------------------------------------------------- sysctls
def read_sysctls() -> dict[str, str]:
    return {name: _sysctl(name).read_text().strip() for name in (*_SYSCTLS, *_SYSCTLS_RAISED) if _sysctl(name).exists()}


def write_sysctls(values: dict[str, str]) -> None:
    for name, value in values.items():
        _sysctl(name).write_text(value)


def raised(values: dict[str, str]) -> dict[str, str]:
    """What has to be higher for several kubelets on one machine."""
    return {name: str(least) for name, least in _SYSCTLS_RAISED.items() if int(values.get(name, least)) < least}


def _sysctl(name: str) -> Path:
    return Path("/proc/sys", name)


# ------------------------------------------------------------------------------------------------------------ leftovers
def leftovers(layout: Layout) -> list[str]:
    """Everything of the cluster that can be seen on the machine; empty before ``up`` and after ``down``."""
    return [
        *(f"machine {name} (process {machine.init})" for name, machine in machines().items()),
        *([f"network link {OUTSIDE_LINK}"] if link_exists(OUTSIDE_LINK) else []),
        *(f"cgroup {path}" for path in cgroups()),
        *([f"directory {layout.state}"] if layout.state.exists() else []),
    ]


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]


# ------------------------------------------------------------------------------------------------------------- the rest
def run(*command: str) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env={**os.environ, "PATH": PATH}
    )
    if done.returncode:
        raise Problem(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def await_that(condition: Callable[[], bool], seconds: float, otherwise: str, interval: float = 0.05) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Problem(otherwise)
        time.sleep(interval)


def _pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def _arguments(pid: int) -> Sequence[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return f"none: {pid} has gone"


def _parent(pid: int) -> int:
    try:
        # the name, in parentheses, may hold anything
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _is_first_of_its_namespace(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"
