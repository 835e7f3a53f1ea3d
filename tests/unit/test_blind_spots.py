"""What judges a run has to be able to find something: each of these was blind once."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from bench.demo import Findings
from bench.growth import KEY, known_keys
from testkit import observer, s3
from testkit.ports import ports
from tests.spark.in_force import unfenced


def test_a_rule_that_the_proxy_does_not_know_is_an_error_and_not_a_fault_that_never_comes() -> None:
    with (
        ports(1) as (port,),
        pytest.raises(ValueError, match="no rule of S3Proxy: 'fail'"),
        s3.S3Proxy(port, lambda _: "fail").running() as proxy,
        pytest.raises((urllib.error.URLError, OSError)),
    ):
        urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}/bucket/name", timeout=5)


def test_a_state_file_that_a_thawed_leader_removed_counts_as_written_by_it(tmp_path: Path) -> None:
    there, gone = tmp_path / "state" / "0" / "1.delta", tmp_path / "state" / "0" / "2.delta"
    there.parent.mkdir(parents=True)
    findings = Findings(before_thaw=frozenset({str(there)}))
    assert findings.written_at(str(there)) is None, "it stood there before, and nothing tells who removed it"
    assert findings.written_at(f"file:{gone}") == 0.0, "it was gone before"


def test_a_log_written_past_the_fence_is_found_whatever_the_checkout_is_called(tmp_path: Path) -> None:
    home = tmp_path / "understudy-main" / "zoo"
    for place in ("q0/offsets", "scratch-1/q0/offsets"):
        (home / place).mkdir(parents=True)
        (home / place / ".0.crc").touch()
    assert unfenced(home, time.time() - 60) == [home / "q0" / "offsets" / ".0.crc"]


def test_keys_of_much_state_are_as_long_as_told_and_no_two_are_alike(tmp_path: Path) -> None:
    known_keys(tmp_path, 3)
    (file,) = tmp_path.glob("known-*")
    keys = [line.split(",")[3] for line in file.read_text().splitlines()[1:]]
    assert [len(each) for each in keys] == [KEY] * 3
    assert len({each[:8] for each in keys}) == 3


def test_changes_are_told_of_what_is_new_gone_or_other() -> None:
    found = observer.changes({"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "1", "d": "1"})
    assert found == ["changed: b", "gone: a", "new: d"]
