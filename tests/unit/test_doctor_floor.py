"""The floor below which no epoch is granted, and logs of a checkpoint: where ``understudy doctor`` looks, and what it takes for nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.doctor_builders import SOUND, TOKEN, Ward
from understudy.cli.doctor import _subject
from understudy.cli.where import Stores, Where
from understudy.doctor import roots
from understudy.doctor.examination import Here, examine
from understudy.doctor.finding import Finding
from understudy.doctor.roots import Reach
from understudy.ha.job import Status


class TestTheFloorWhereDocumentsAreElsewhere:
    """A machine whose documents are in ZooKeeper or a bucket, and a pod, keep their claims in a directory of their own."""

    @pytest.mark.parametrize(
        ("harm", "words"),
        [
            (lambda home: shutil.rmtree(home / "floor"), None),
            (lambda home: (home / "floor" / "claim@1").write_text("{"), "claim@1"),
            (lambda _: None, "floor/claim: the highest token is 3.1"),
        ],
    )
    def test_it_is_looked_at_and_may_be_missing(
        self, tmp_path: Path, harm: Callable[[Path], object], words: str | None
    ) -> None:
        async def examination() -> list[Finding]:
            ward = Ward(tmp_path)
            await ward.begin()
            await ward.jobs.end(TOKEN, Status.FINISHED, "the script ended", 20.0)
            harm(tmp_path / "c")
            elsewhere = Stores("c", ward.documents, ward.documents, "at zoo:2181")
            here = Here(local=True, pod=False, machine=lambda: SOUND)
            where = Where(tmp_path, "c", "", "", "zookeeper", "zoo:2181")
            return (await examine(_subject(where, elsewhere, "", here))).findings

        told = [each.text for each in asyncio.run(examination()) if "floor" in each.text]
        assert [words in each for each in told if words] == ([True] if words else [])
        assert bool(told) is (words is not None)

    def test_a_laptop_has_none(self, tmp_path: Path) -> None:
        documents = Ward(tmp_path).documents
        elsewhere = Stores("c", documents, documents, "in namespace jobs", "lease")
        subject = _subject(Where(None, "c", "jobs", ""), elsewhere, "", Here(local=False, pod=False))
        assert subject.home is None


def test_a_log_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "offsets").write_text("")
    found = asyncio.run(roots.look(str(tmp_path), logs=True, reach=Reach(disks=True, bucket=None, within=5.0)))
    assert found.error is not None
    assert "Is the disk alive, and may this user read it?" in str(found.error)
