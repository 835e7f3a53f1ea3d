"""What can be seen of a cluster on the machine it runs on; taken before it comes up and after it went down.

Written apart from ``e2e/cluster``, and without asking it: a cluster that forgets something would forget it here too. What Docker
does meanwhile is none of its business and left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

Footprint = dict[str, list[str]]

_PROGRAMS = ("etcd", "kube", "coredns", "containerd", "runc")
_IN_PODS = {"/pause", "/probe", "/versitygw"}
_DIRECTORIES = ("/run", "/var/lib", "/var/log", "/etc/cni", "/etc/kubernetes", "/opt", "/usr/libexec", "/tmp")
_SYSCTLS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "fs/inotify/max_user_instances"),
)


def footprint() -> Footprint:
    found = {
        "processes": _processes(),
        "mounts": [" ".join(line.split()[3:5]) for line in _lines("/proc/self/mountinfo")],
        "links": [path.name for path in Path("/sys/class/net").iterdir()],
        "routes": [route for route in _said("ip", "route", "show", "table", "all") if route],
        "named network namespaces": _said("ip", "netns", "list"),
        "firewall": [line.split(" [")[0] for line in _said("iptables-save") if line[:1] in {":", "-", "*"}],
        "cgroups": [
            str(path) for pattern in ("*", "*/*") for path in Path("/sys/fs/cgroup").glob(pattern) if path.is_dir()
        ],
        "files": [str(path) for directory in _DIRECTORIES for path in _two_levels(Path(directory))],
        "sysctls": [f"{name} = {line}" for name in _SYSCTLS for line in _lines(f"/proc/sys/{name}")],
    }
    return {kind: sorted(line for line in lines if "docker" not in line) for kind, lines in found.items()}


def grown(before: Footprint, after: Footprint) -> Footprint:
    """What there is now and was not before."""
    more = {kind: [line for line in lines if line not in before.get(kind, [])] for kind, lines in after.items()}
    return {kind: lines for kind, lines in more.items() if lines}


def _processes() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        name = Path(arguments[0]).name
        if name.startswith(_PROGRAMS) or arguments[0] in _IN_PODS or "boot.sh" in " ".join(arguments):
            found.append(" ".join(arguments)[:200])
    return found


def _two_levels(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    first = [
        path
        for path in directory.iterdir()
        if directory != Path("/tmp") or "containerd" in path.name or "kube" in path.name
    ]
    return first + [below for path in first if path.is_dir() and not path.is_symlink() for below in path.iterdir()]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _said(*command: str) -> list[str]:
    environment = {"PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.splitlines()
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    json.dump(footprint(), sys.stdout, indent=1)
