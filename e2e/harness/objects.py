"""An S3 server in the cluster: versitygw as a pod on port 7070 of the Service ``objects``, and a small client for tests.

The same server, compiled from the same module, as in ``testkit/s3.py``; here alone in an image. It forgets everything with
its pod. In the local cluster it lives on node 1, so that tests cut and crash the others.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from e2e.cluster.build import TINY
from e2e.cluster.image import write_image
from e2e.cluster.layout import REPOSITORY, Layout
from e2e.harness import manifests
from e2e.harness.kubectl import Cluster, NoCluster

BINARY = REPOSITORY / "build" / "bin" / "versitygw"
ARCHIVE = REPOSITORY / "build" / "e2e" / "images" / "versitygw.tar"
IMAGE = "localhost/versitygw:e2e"
_XML = "http://s3.amazonaws.com/doc/2006-03-01/"
NAME, PORT, BUCKET, REGION = "objects", 7070, "understudy", "us-east-1"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """``endpoint`` is what pods use; ``open()`` is for the test itself."""

    cluster: Cluster
    namespace: str
    bucket: str
    key: str
    secret: str

    @property
    def endpoint(self) -> str:
        return f"http://{NAME}.{self.namespace}.svc:{PORT}"

    def credentials(self, name: str = "objects") -> dict[str, Any]:
        """A Secret with the names that AWS's libraries read, for a namespace whose pods use the store."""
        return manifests.secret(name, {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret})

    @contextmanager
    def open(self) -> Iterator[Bucket]:
        """Through the API server, and so from wherever the tests run, into whichever cluster.

        The local cluster's pods are reached by address: there the API server is among the things that fail.
        """
        if self.cluster.local:
            pods = self.cluster.get(self.namespace, "pods", "--selector", f"app={NAME}")["items"]
            yield Bucket(PORT, self.bucket, self.key, self.secret, pods[0]["status"]["podIP"])
            return
        with self.cluster.forward(self.namespace, NAME, PORT) as port:
            yield Bucket(port, self.bucket, self.key, self.secret)


class Refusal(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Bucket:
    """What tests need of S3, signed with version 4. Not for many megabytes."""

    port: int
    bucket: str
    key: str
    secret: str
    host: str = "127.0.0.1"

    def put(self, name: str, body: bytes, *, only_new: bool = False) -> None:
        self._request("PUT", name, body=body, headers={"If-None-Match": "*"} if only_new else {})

    def get(self, name: str) -> bytes:
        return self._request("GET", name)

    def delete(self, name: str) -> None:
        self._request("DELETE", name)

    def names(self, prefix: str = "") -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            query = {"list-type": "2", "prefix": prefix, **({"continuation-token": after} if after else {})}
            page = ET.fromstring(self._request("GET", "", query=query))
            kind = page.tag.rpartition("}")[0] + "}" if "}" in page.tag else ""
            found += [str(element.text) for element in page.iter(f"{kind}Key")]
            after = page.findtext(f"{kind}NextContinuationToken") or ""
            if not after:
                return found

    def keep_versions(self) -> None:
        """From now on an object that is overwritten stays, as an older version."""
        said = f'<VersioningConfiguration xmlns="{_XML}"><Status>Enabled</Status></VersioningConfiguration>'
        self._request("PUT", "", query={"versioning": ""}, body=said.encode())

    def versions(self, name: str) -> int:
        listed = ET.fromstring(self._request("GET", "", query={"versions": "", "prefix": name}))
        return sum(each.findtext(f"{{{_XML}}}Key") == name for each in listed.iter(f"{{{_XML}}}Version"))

    def _request(
        self,
        method: str,
        name: str,
        *,
        query: dict[str, str] | None = None,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> bytes:
        path = quote(f"/{self.bucket}/{name}", safe="/-_.~")
        asked = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted((query or {}).items()))
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            signed = self._signature(method, path, asked, body)
            connection.request(method, path + (f"?{asked}" if asked else ""), body, {**signed, **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise Refusal(answer.status, content.decode(errors="replace"))
        return content

    def _signature(self, method: str, path: str, query: str, body: bytes) -> dict[str, str]:
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        headers = {
            "host": f"{self.host}:{self.port}",
            "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
            "x-amz-date": now,
        }
        names = ";".join(headers)
        canonical = [
            method,
            path,
            query,
            *(f"{k}:{v}" for k, v in headers.items()),
            "",
            names,
            headers["x-amz-content-sha256"],
        ]
        hashed = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashed}".encode(), "sha256").hex()
        credential = f"Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


def install(cluster: Cluster, namespace: str) -> ObjectStore:
    """Into a namespace that exists; returns when it answers."""
    cluster.load(image(), nodes=[1])
    cluster.load(TINY.built(Layout.default()) / "probe.tar", nodes=[1])
    store = ObjectStore(cluster, namespace, BUCKET, "understudy", secrets.token_hex(16))
    cluster.apply(namespace, store.credentials(), _deployment(local=cluster.local), manifests.service(NAME, PORT, NAME))
    cluster.kubectl("rollout", "status", "--namespace", namespace, f"deployment/{NAME}", "--timeout=90s", timeout=100)
    return store


def image() -> Path:
    if not BINARY.exists():
        raise NoCluster("versitygw is not built: run tools/setup.sh e2e")
    if not ARCHIVE.exists() or ARCHIVE.stat().st_mtime < BINARY.stat().st_mtime:
        write_image(ARCHIVE, IMAGE, {"versitygw": BINARY}, ["/versitygw"])
    return ARCHIVE


def _deployment(*, local: bool) -> dict[str, Any]:
    container = {
        "imagePullPolicy": "IfNotPresent",
        "securityContext": manifests.RESTRICTED_CONTAINER,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    # to versitygw a directory is a bucket
    bucket = {"name": "bucket", "image": manifests.PROBE, "args": ["mkdir", f"/data/{BUCKET}"], **container}
    server = {
        "name": "versitygw",
        "image": IMAGE,
        "args": ["--port", f":{PORT}", "--health", "/health", "--keep-alive", "--quiet", "posix", "/data"],
        "env": [
            {"name": theirs, "valueFrom": {"secretKeyRef": {"name": "objects", "key": ours}}}
            for theirs, ours in (
                ("ROOT_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
                ("ROOT_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
            )
        ],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 1},
        **container,
    }
    volumes = [{"name": "data", "emptyDir": {}}]
    return manifests.alone(NAME, local=local, volumes=volumes, initContainers=[bucket], containers=[server])
