"""Container images of single static binaries, written without a registry, a daemon or a base image."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(
    out: Path, name: str, files: Mapping[str, Path], entrypoint: Sequence[str], user: str = "10001:10001"
) -> None:
    """Write an archive for ``docker load``, ``ctr images import`` and ``kind load image-archive``; the same bytes every time."""
    layer = _layer(files)
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Entrypoint": list(entrypoint), "User": user, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_suffix(".part")
    with tarfile.open(unfinished, "w") as archive:
        _add(archive, config_name, config)
        _add(archive, f"{digest}/layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())
    unfinished.replace(out)


def image_names(archive: Path) -> tuple[str, tuple[str, ...]]:
    """The identity of the (first) image in an archive, and the names it has there."""
    with tarfile.open(archive) as opened:
        content = opened.extractfile("manifest.json")
        if content is None:
            raise ValueError(f"{archive} has no manifest.json")
        first = json.load(content)[0]
    return Path(first["Config"]).name.removesuffix(".json"), tuple(first.get("RepoTags") or ())


def _layer(files: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for path, source in sorted(files.items()):
            _add(layer, path.lstrip("/"), source.read_bytes(), mode=0o755)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
