"""``make e2e``: choose a cluster, bring it up if need be, run the tests, and leave things as they were.

    python -m e2e [--all] [pytest's arguments]
    python -m e2e --run MODULE [its arguments]        a program of ours in place of the tests

KUBECONFIG, E2E_CONTEXT, E2E_CONFIRM: see ``cluster/choice.py``. E2E_KEEP=1 keeps a cluster that this run brought up, and the
namespaces of its tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.choice import Given, Kind, Local, Refused, Wishes, choose, too_few
from e2e.cluster.layout import CONTEXT, CONTROL, REPOSITORY, Layout
from e2e.cluster.machines import machines
from e2e.harness import images
from e2e.harness.evidence import DIRECTORY
from e2e.harness.footprint import footprint
from e2e.harness.kubectl import Cluster, Failed, attach, current_context, find, find_kubectl

KIND_NAME = "understudy-e2e"
KIND_NODES = {
    "kind": "Cluster",
    "apiVersion": "kind.x-k8s.io/v1alpha4",
    "nodes": [{"role": "control-plane"}, {"role": "worker"}, {"role": "worker"}],
}
_DELETE = f"kind delete cluster --name {KIND_NAME}"


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print((__doc__ or "").strip())
        return 0
    if arguments[:1] == ["--run"]:
        program = list(arguments[1:])
    else:
        program = ["pytest", *(["e2e/tests"] if "--all" in arguments else _short_list())]
        program += [argument for argument in arguments if argument != "--all"]
    wishes = Wishes.of(os.environ)
    root, kind = os.geteuid() == 0, _kind_is_here()
    # what the local cluster is made of has both
    tools = ["kubectl", *(["helm"] if program[0] == "pytest" else [])] if wishes.kubeconfig or kind else []
    if missing := [tool for tool in tools if find(tool, Layout.default()) is None]:
        _say(f"please install {' and '.join(missing)}, or run tools/setup.sh cluster, which compiles them")
        return 2
    match choose(wishes, current_context=_current(wishes), kind=kind, root=root):
        case Refused(reason):
            _say(reason)
            return 2
        case Given(context):
            return _in_given_cluster(program, wishes, context, everything="--all" in arguments)
        case Kind():
            return _in_kind(program, root=root)
        case Local():
            return _in_local_cluster(program)


def _in_given_cluster(program: Sequence[str], wishes: Wishes, context: str, *, everything: bool) -> int:
    _say(f"in the context {context} of {wishes.kubeconfig}")
    try:
        nodes = attach({**os.environ, "E2E_CONTEXT": context}).get("default", "nodes")["items"]
    except (Failed, subprocess.TimeoutExpired) as problem:
        _say(_last_line(problem))
        return 2
    if refused := too_few(nodes, everything=everything):
        _say(refused.reason)
        return 2
    _set_up("e2e")
    images.build()
    return _run(program, {"E2E_CONTEXT": context})


def _in_kind(program: Sequence[str], *, root: bool) -> int:
    with kind_cluster(DIRECTORY / "kind.kubeconfig", keep=bool(os.environ.get("E2E_KEEP"))) as found:
        if found is None:
            _say("Docker cannot run kind here (see above)")
            return _in_local_cluster(program) if root else 2
        try:  # kind itself waits for the control plane only; and one that was kept may not have outlived its machine's restart
            found.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=180s", timeout=200)
        except (Failed, subprocess.TimeoutExpired) as problem:
            _say(f"{KIND_NAME}: {_last_line(problem)}" + ("" if found.owned else f". Perhaps {_DELETE}, and run again"))
            return 2
        _set_up("e2e")
        images.build()
        owned = {"E2E_OWNED": "1"} if found.owned else {}
        return _run(program, {"KUBECONFIG": found.kubeconfig, "E2E_CONTEXT": found.context, **owned})


@contextmanager
def kind_cluster(kubeconfig: Path, *, keep: bool) -> Iterator[Cluster | None]:
    """``None`` where Docker cannot run one. One that was there is used and stays."""
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    options = ["--name", KIND_NAME, "--kubeconfig", str(kubeconfig)]
    listed = subprocess.run(["kind", "get", "clusters"], stdout=subprocess.PIPE, text=True, check=True)
    known = KIND_NAME in listed.stdout.split()
    cluster = Cluster(
        find_kubectl(Layout.default()), str(kubeconfig), f"kind-{KIND_NAME}", local=False, owned=not known
    )
    if known:
        _say(f"in the kind cluster {KIND_NAME}, which was there and stays ({_DELETE})")
        subprocess.run(["kind", "export", "kubeconfig", *options], check=True)
        yield cluster
        return
    _say(f"making a kind cluster, {KIND_NAME}")
    made = True  # also one whose making is interrupted
    try:
        # Nothing but trying tells whether Docker can: it needs privileged containers, and an image of 1 GB from a registry.
        command = ["kind", "create", "cluster", *options, "--config", "-", "--wait", "180s"]
        created = subprocess.run(command, input=json.dumps(KIND_NODES), text=True, check=False)
        made = created.returncode == 0  # else kind itself has taken away what there was of it
        yield cluster if made else None
    finally:
        if made and not keep:
            subprocess.run(["kind", "delete", "cluster", *options], check=False)


def _in_local_cluster(program: Sequence[str]) -> int:
    _set_up("cluster")
    layout = Layout.default()
    owned = CONTROL not in machines()
    before = DIRECTORY / "footprint.json"
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    images.build()  # first: it may install Docker and start it, and what that leaves is none of the cluster's
    if owned:
        if _cluster("down"):  # what a cluster that died with its machine left behind is not how this run found things
            return 1
        before.write_text(json.dumps(footprint(), indent=1))
    try:
        if _cluster("up", "3"):
            return 1
        local = {"KUBECONFIG": str(layout.kubeconfig), "E2E_CONTEXT": CONTEXT, "E2E_FOOTPRINT": str(before)}
        return _run(program, {**local, "E2E_OWNED": "1"} if owned else local)
    finally:
        if owned and not os.environ.get("E2E_KEEP"):
            _cluster("down")


def _short_list() -> list[str]:
    lines = (REPOSITORY / "e2e" / "short.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _current(wishes: Wishes) -> str:
    if not wishes.kubeconfig or wishes.context:
        return ""
    return current_context(find_kubectl(Layout.default()), wishes.kubeconfig)


def _kind_is_here() -> bool:
    if shutil.which("kind") is None or shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def _set_up(part: str) -> None:
    subprocess.run([str(REPOSITORY / "tools" / "setup.sh"), part], check=True)


def _cluster(*command: str) -> int:
    return subprocess.run([sys.executable, "-m", "e2e.cluster", *command], cwd=REPOSITORY, check=False).returncode


def _run(program: Sequence[str], environment: Mapping[str, str]) -> int:
    command = [sys.executable, "-m", *program]
    return subprocess.run(command, cwd=REPOSITORY, env={**os.environ, **environment}, check=False).returncode


def _last_line(problem: Exception) -> str:
    """What kubectl says after it has tried again and again."""
    return str(problem).splitlines()[-1]


def _say(sentence: str) -> None:
    print(f"e2e: {sentence}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as failed:  # it has said why
        sys.exit(failed.returncode)
    except KeyboardInterrupt:
        sys.exit(130)
