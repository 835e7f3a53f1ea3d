"""Who may do what in the local cluster: certificates, tokens and kubeconfigs, new with every cluster."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster.layout import API, CONTEXT, MOST_NODES, Layout, Problem, node_name

_NODES = tuple(node_name(number) for number in range(1, MOST_NODES + 1))

#: Who has a token and a kubeconfig: the user's name and group in the cluster.
_USERS = {
    "admin": ("admin", "system:masters"),
    "kcm": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    **{node: (f"system:node:{node}", "system:nodes") for node in _NODES},
}
_CLUSTER_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")

#: A configuration of our own, because distributions disagree about openssl.cnf.
_OPENSSL = """[req]
distinguished_name = empty
prompt = no
[empty]
CN = replaced by -subj
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
[leaf]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
"""


def make_credentials(layout: Layout) -> None:
    """Once in a cluster's life; all of it or nothing."""
    if layout.credentials.is_dir():
        return
    unfinished = layout.credentials.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True, mode=0o700)
    _authority(unfinished)
    _certificate(unfinished, "api", "/CN=kube-apiserver", "serverAuth", ["127.0.0.1", "10.99.0.1", "10.96.0.1"])
    _certificate(
        unfinished, "kubelet", "/CN=kubelet", "serverAuth", [f"10.99.0.{10 + n}" for n in range(1, MOST_NODES + 1)]
    )
    _certificate(unfinished, "client", "/O=system:masters/CN=kube-apiserver-kubelet-client", "clientAuth", [])
    lines = []
    for number, (short, (user, group)) in enumerate(_USERS.items()):
        token = secrets.token_hex(16)
        lines.append(",".join([token, user, str(number), *([group] if group else [])]))
        _write(unfinished / f"{short}.kubeconfig", _kubeconfig(unfinished, token))
    _write(unfinished / "tokens.csv", "\n".join(lines) + "\n")
    shutil.copy(unfinished / "admin.kubeconfig", layout.kubeconfig)
    unfinished.rename(layout.credentials)


def _authority(directory: Path) -> None:
    _write(directory / "authority.cnf", _OPENSSL)
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=lab-ca"),
        *("-config", str(directory / "authority.cnf"), "-extensions", "authority"),
        *("-keyout", str(directory / "ca.key"), "-out", str(directory / "ca.crt")),
    )
    _openssl("genrsa", "-out", str(directory / "accounts.key"), "2048")


def _certificate(directory: Path, name: str, subject: str, usage: str, addresses: Sequence[str]) -> None:
    names = [*(f"DNS:{known}" for known in ("localhost", *_CLUSTER_NAMES)), *(f"IP:{address}" for address in addresses)]
    lines = [f"extendedKeyUsage = {usage}", *([f"subjectAltName = {','.join(names)}"] if addresses else [])]
    _write(directory / f"{name}.cnf", _OPENSSL + "\n".join(lines) + "\n")
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", subject),
        *("-CA", str(directory / "ca.crt"), "-CAkey", str(directory / "ca.key")),
        *("-config", str(directory / f"{name}.cnf"), "-extensions", "leaf"),
        *("-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.crt")),
    )


def _kubeconfig(directory: Path, token: str) -> str:
    authority = base64.b64encode((directory / "ca.crt").read_bytes()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": CONTEXT,
            "clusters": [{"name": CONTEXT, "cluster": {"server": API, "certificate-authority-data": authority}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": "user"}}],
        },
        indent=1,
    )


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Problem(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
