"""Checkpoints on file systems that other pods do not see, and on those where nothing can be fenced."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.driver.volumes import own_disk, refuse_private
from understudy.errors import ScriptProblem

POD = """\
620 540 0:110 / / rw,relatime master:210 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
621 620 0:112 / /proc rw,nosuid - proc proc rw
630 620 0:51 / /memory rw,relatime - tmpfs tmpfs rw,size=65536k
631 620 8:1 /var/lib/kubelet/pods/1b/volumes/kubernetes.io~empty-dir/work /work rw,relatime - ext4 /dev/sda1 rw
632 620 8:32 / /data rw,relatime shared:4 - ext4 /dev/sdc rw
633 632 0:60 / /data/cache rw - tmpfs tmpfs rw
634 620 8:1 /srv/with\\040space /with\\040space rw,relatime - xfs /dev/sda1 rw
635 620 8:1 /srv/over /memory rw,relatime - xfs /dev/sda1 rw
"""


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/opt/job/checkpoint", "the container's own disk (overlay)"),
        ("/database/checkpoint", "the container's own disk (overlay)"),
        ("/work/checkpoint", "an emptyDir volume"),
        ("/data/checkpoint", None),
        ("/data/cache/checkpoint", "the container's own disk (tmpfs)"),
        ("/with space/checkpoint", None),
        ("/memory/checkpoint", None),
    ],
)
def test_what_of_a_pods_own_holds_a_path(path: str, own: str | None) -> None:
    assert own_disk(Path(path), POD) == own


@pytest.mark.parametrize(
    ("location", "checkpoint", "kind", "why"),
    [
        ("checkpoints/a", "file:/opt/checkpoints/a", None, "relative to the working directory"),
        ("/mnt/a", "file:/mnt/a", "NFS", "on NFS"),
        ("/proc/self/a", "file:/proc/self/a", None, ""),
        ("s3a://bucket/a", "s3a://bucket/a", "NFS", ""),
        ("a", "s3a://bucket/a", None, ""),
    ],
)
def test_a_checkpoint_that_no_other_pod_can_use_is_refused(
    location: str, checkpoint: str, kind: str | None, why: str
) -> None:
    if not why:
        refuse_private(location, checkpoint, kind=lambda _: kind)
        return
    with pytest.raises(ScriptProblem, match=why):
        refuse_private(location, checkpoint, kind=lambda _: kind)


def test_the_disk_of_this_very_container_is_told_by_the_kernel(tmp_path: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    assert any(f" {Path('/proc')} " in line for line in mounts.splitlines())
    assert own_disk(Path("/proc/self"), mounts) is None  # neither a volume nor a disk: nothing is claimed of it
