"""A real Kubernetes cluster on one machine, without nested containers (README.md beside this file)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from e2e.cluster import commands
from e2e.cluster.build import CLIENT_GO, DNS, KUBE, TINY
from e2e.cluster.layout import Layout, Problem


def main() -> int:
    chosen = vars(_parser().parse_args())
    command: Callable[..., None] = chosen.pop("run")
    try:
        command(Layout.default(), **chosen)
    except Problem as problem:
        print(f"cluster: {problem}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    every = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[..., None], what: str, **settings: Any) -> argparse.ArgumentParser:
        added = every.add_parser(name, help=what)
        added.set_defaults(run=run, **settings)
        return added

    building = command("build", commands.compile_all, "compile what changed; minutes the first time, then nothing")
    tests = (TINY, *CLIENT_GO.values())
    which: dict[str, Any] = {"action": "store_const", "const": tests, "default": (*tests, DNS, KUBE)}
    building.add_argument("--tiny", dest="modules", help="only what tests run (for other clusters)", **which)
    up = command("up", commands.up, "start a control plane and nodes 1 to NODES, wait until all are Ready")
    up.add_argument("nodes", nargs="?", type=int, default=3, metavar="NODES")
    command("down", commands.down, "end everything and remove what it made")
    load = command("load", commands.load, "copy an image into nodes: a Docker image's name, or an archive")
    load.add_argument("image", metavar="IMAGE|FILE.tar")
    load.add_argument("--nodes", type=_numbers, metavar="N,N", help="only these; the others don't spend the time")
    for faulty in (
        command("cut", commands.set_cable, "pull node N's network cable: a partition", up=False),
        command("heal", commands.set_cable, "put it back", up=True),
        command("crash", commands.crash, "pull node N's plug: no process of it lives on, its disk does"),
        command("revive", commands.revive, "switch it on again"),
    ):
        faulty.add_argument("number", type=int, metavar="N")
    command(
        "freeze-api", commands.set_api, "stop the API server where it is: an outage without lost state", frozen=True
    )
    command("thaw-api", commands.set_api, "let it go on", frozen=False)
    kill = command("kill", commands.kill, "send a signal to the first process of a container, from outside it")
    kill.add_argument("pod", metavar="NAMESPACE/POD")
    kill.add_argument("container", nargs="?")
    kill.add_argument("--signal", dest="name", default="KILL", metavar="NAME")
    command("status", commands.status, "what runs")
    command("env", commands.env, "print KUBECONFIG and a PATH with kubectl and helm, for eval")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
