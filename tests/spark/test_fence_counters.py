"""What the fence counts: written by a real JVM, read by the supervisor's Python; and its log, which is for people."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from testkit.observer import read_fence_logs
from tests.doubles.pages import CLOSED, OPEN, REVOKED, token
from tests.spark.fence_env import LOST, Driver, driver, refusal
from tests.spark.test_fence_gate import Background
from understudy.protocol.counters import Commit, Counts

pytestmark = pytest.mark.spark


def test_counts_are_on_the_page_whatever_becomes_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotation froze the age of the last commit, and the liveness probe killed a healthy leader for it."""
    monkeypatch.setenv("UNDERSTUDY_FENCE_LOG_LIMIT", "4096")
    long, root = tmp_path.joinpath(*["long-é" * 20] * 8), tmp_path / "état" / "state" / "orders"
    with driver(tmp_path / "jvm") as one:
        read = one.gate.counters.read
        assert read() == Counts()
        one.gate.write(OPEN, token(5, 1))
        one.claim(root)
        began = time.time()
        for batch in range(40):
            for log in ("offsets", "commits"):
                one.write(root / log / str(batch))
            one.write(root / "state" / "0" / "0" / f"{batch}.delta")
        counts = read()
        assert (counts.commits, counts.accepted, counts.refused, counts.unknown) == (40, 121, 0, 0)
        assert counts.first == Commit(token(5, 1), str(root), 0)
        assert (counts.committed_batch, counts.committed_token) == (39, token(5, 1))
        assert abs(counts.committed_at - began) < 600

        logs = sorted(one.log_path.parent.iterdir())
        assert [path.name for path in logs] == [one.log_path.name, f"{one.log_path.name}.1"]
        assert all(path.stat().st_size <= 4096 for path in logs)
        lines = read_fence_logs(one.log_path.parent)
        assert lines[-1].path == str(root / "commits" / "39"), "the newest is there, and rotated files are read too"
        assert len(lines) > len(one.log())
        assert not [line for line in lines if line.path.startswith(str(root / "state"))]

        one.gate.write(OPEN, token(5, 2))  # raised above a claim that was met: the same driver, another token
        one.write(long / "commits" / "7")
        assert read().first == Commit(token(5, 2), str(long), 7)
        assert {name: one.state()[name] for name in ("accepted", "refused", "unknown")} == {
            "accepted": read().accepted,
            "refused": 0,
            "unknown": 0,
        }

        one.gate.write(CLOSED, token(5, 2))
        background = Background(partial(one.write, root / "commits" / "40"))  # it waits when the gate is revoked
        background.start()
        background.join(0.3)
        one.gate.write(REVOKED, token(5, 2))
        background.join(20)
        assert background.error == LOST
        assert read().refused == 1
        assert read().commits == 41


def test_a_log_that_cannot_be_written_stops_nothing_and_goes_on_when_it_can(tmp_path: Path) -> None:
    """A full disk: the JVM may write files of 1 MiB at most, and the log has that already."""
    with driver(tmp_path / "jvm") as one:
        one.gate.write(OPEN, token(5, 1))
        one.write(tmp_path / "offsets" / "0")
        import resource

        with one.log_path.open("ab") as log:
            log.write(b"\n" * (1 << 20))
        resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        one.write(tmp_path / "commits" / "0")
        one.write(tmp_path / "offsets" / "1")
        assert one.gate.counters.read().commits == 1
        resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        one.write(tmp_path / "commits" / "1")
        assert one.gate.counters.read().commits == 2
        written = [json.loads(line) for line in one.log_path.read_text().splitlines() if line]
        assert written[-1]["path"] == str(tmp_path / "commits" / "1")


def test_directories_that_are_written_once_are_forgotten_and_claimed_again_when_they_are_written_again(
    tmp_path: Path,
) -> None:
    """One output directory per batch: each cost memory for good, and SIGTERM listed them all."""

    def delete(one: Driver, directory: Path) -> None:
        protocol = one.jvm.dev.understudy.fence.FencedCommitProtocol("job", str(directory), False)
        gone = one.path(directory / "gone")
        protocol.deleteWithJob(gone.getFileSystem(one.conf), gone, True)

    lake = tmp_path / "lake"
    with driver(tmp_path / "jvm") as one:
        one.gate.write(OPEN, token(5, 1))
        one.claim(tmp_path / "checkpoint")
        (lake / "0" / "offsets").mkdir(parents=True)
        (lake / "0" / "offsets" / "7").touch()
        for batch in range(300):
            delete(one, lake / str(batch))
        roots = {each["root"]: each for each in one.state()["roots"]}
        assert len(roots) == 257, "256 outputs, and what was claimed by its name"
        assert str(lake / "299") in roots
        assert str(lake / "43") not in roots
        assert one.quiesce(0), "what a batch writer writes to has no batch in flight, even with files there"

        one.fence.forget(str(tmp_path / "checkpoint"), one.conf)
        assert len(one.state()["roots"]) == 256
        assert one.claim(tmp_path / "checkpoint")["outcome"] == "repeat"

        claimed = len(one.logged(op="claim"))
        delete(one, lake / "0")
        assert len(one.logged(op="claim")) == claimed, "it found its own claim"
        one.jvm.java.lang.System.gc()

        [claim] = (lake / "1" / "_understudy").rglob("claim*")
        assert claim.name == "claim@1"
        claim.with_name("claim@2").write_text(
            claim.read_text().replace(str(token(5, 1)), str(token(6, 1))).replace(one.holder, "other")
        )
        with pytest.raises(Py4JJavaError) as error:
            delete(one, lake / "1")
        assert refusal(error.value) == LOST
