"""Whether a checkpoint on a file system is one that another pod finds: in a cluster most directories are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from understudy.documents.directory import network_filesystem
from understudy.errors import ScriptProblem

_MOUNTS = Path("/proc/self/mountinfo")
#: Kinds of file systems that end with the container or the pod.
_OWN = ("overlay", "aufs", "tmpfs", "ramfs", "rootfs")
#: Where kubelet keeps a pod's emptyDir volumes, as the root of the mount shows.
_EMPTY_DIR = "/kubernetes.io~empty-dir/"

_REMEDY = (
    'Keep it in an object store, .option("checkpointLocation", "s3a://…"), or run understudy with --checkpoints s3a://…; '
    "one replica alone may use a volume, with --lock file"
)


def refuse_private(location: str, checkpoint: str, *, kind: Callable[[Path], str | None] = network_filesystem) -> None:
    """Raises ``ScriptProblem`` for a ``checkpoint`` that only this pod has, or on which nothing can be fenced.

    ``location`` is as the script gave it, ``checkpoint`` the same, absolute and with its scheme.
    """
    if not checkpoint.startswith("file:"):
        return
    path = Path("/" + checkpoint.removeprefix("file:").lstrip("/"))
    if "://" not in location and not location.startswith(("/", "file:")):
        why = "it is relative to the working directory, which each pod has for itself"
    elif (remote := kind(path)) is not None:
        why = f"it is on {remote}, where link(2) cannot be relied on: two leaders could both write one entry"
    elif (own := own_disk(path, _MOUNTS.read_text(encoding="utf-8", errors="replace"))) is not None:
        why = f"it is on {own}, which is gone with this pod, and no other replica finds it"
    else:
        return
    raise ScriptProblem(f"a checkpoint cannot be kept there: {why}", where=checkpoint, remedy=_REMEDY)


def own_disk(path: Path, mountinfo: str) -> str | None:
    """What of the pod's own holds ``path``, in words; ``None`` for a volume. The pure part: ``mountinfo`` is proc(5)'s."""
    held: tuple[int, str, str] | None = None
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if "-" not in fields or len(fields) < 7:
            continue
        root, at = (_unescaped(field) for field in fields[3:5])
        depth = len(Path(at).parts)
        # the later of two mounts at one place hides the earlier
        if path.is_relative_to(at) and (held is None or depth >= held[0]):
            held = depth, root, fields[fields.index("-") + 1]
    if held is None:
        return None
    _, root, kind = held
    if _EMPTY_DIR in root:
        return "an emptyDir volume"
    return f"the container's own disk ({kind})" if kind in _OWN else None


def _unescaped(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
