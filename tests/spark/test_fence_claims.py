"""Claims in a local root: who yields to whom, what a race of processes leaves behind, and what is never taken for free."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.doubles.pages import OPEN, STANDBY, token
from tests.spark.fence_env import LOST, Driver, claim_files, class_path, driver, refusal, seize

pytestmark = pytest.mark.spark

#: Claims once, when told to; in the fence's own package, so that nothing of Hadoop has to be loaded eight times.
CLAIMANT = """
package dev.understudy.fence;

class Claimant {
    public static void main(String[] a) throws Exception {
        LocalClaims root = new LocalClaims(java.nio.file.Path.of(a[0]));
        Claim mine = new Claim(Long.parseLong(a[1]), a[2], "c", "j", "file");
        root.read();
        System.out.println("ready");
        System.in.read();
        System.out.println(Claims.claim(root, null, mine, () -> true).verdict());
    }
}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("claims")) as made:
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    shared.gate.write(OPEN, token(5, 1))
    yield shared
    shared.gate.write(STANDBY)


def standing(root: Path) -> dict[str, Any]:
    claims = claim_files(root)
    return claims[max(claims)]


def test_a_free_root_is_claimed_and_claiming_again_is_a_repeat(one: Driver, tmp_path: Path) -> None:
    assert one.claim(tmp_path)["outcome"] == "claimed"
    assert standing(tmp_path) == {
        "version": 1,
        "token": token(5, 1),
        "holder": one.holder,
        "cluster": "c",
        "job": "j",
        "lock": "file",
    }
    again = one.claim(tmp_path)
    assert (again["outcome"], again["token"], again["holder"]) == ("repeat", token(5, 1), one.holder)
    assert list(claim_files(tmp_path)) == [1]


def test_a_lower_token_is_replaced(one: Driver, tmp_path: Path) -> None:
    seize(tmp_path, token(5, 0))
    assert one.claim(tmp_path)["outcome"] == "claimed"
    assert standing(tmp_path)["token"] == token(5, 1)


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ({"number": token(5, 2)}, "higher-token"),
        ({"number": token(5, 1)}, "other-holder"),
        ({"number": token(1), "cluster": "other"}, "other-cluster"),
        ({"number": token(1), "job": "other"}, "other-job"),
    ],
)
def test_a_claim_is_refused_with_its_reason(one: Driver, tmp_path: Path, there: dict[str, Any], reason: str) -> None:
    seize(tmp_path, holder="another", **there)
    refused = one.claim(tmp_path)
    assert (refused["outcome"], refused["reason"]) == ("refused", reason)
    assert (refused["token"], refused["holder"]) == (there["number"], "another")
    assert list(claim_files(tmp_path)) == [1]
    assert one.logged(op="claim", path=str(tmp_path))[-1]["outcome"] == "refused"


@pytest.mark.parametrize(
    ("there", "outcome"), [("lease", "refused"), ("multi", "refused"), ("file", "claimed"), ("zookeeper", "refused")]
)
def test_another_lock_kind_is_refused(one: Driver, tmp_path: Path, there: str, outcome: str) -> None:
    seize(tmp_path, token(1))
    path = tmp_path / "_understudy" / "claim@1"
    path.write_text(json.dumps({**json.loads(path.read_text()), "lock": there}))
    assert one.claim(tmp_path)["outcome"] == outcome


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"version":2,"token":1}', '{"version":1,"token":1}'])
def test_an_unreadable_claim_is_not_a_free_root(one: Driver, tmp_path: Path, content: str) -> None:
    (tmp_path / "_understudy").mkdir()
    (tmp_path / "_understudy" / "claim@3").write_text(content)
    refused = one.claim(tmp_path)
    assert (refused["outcome"], refused["reason"]) == ("refused", "unreadable")
    assert [each.name for each in (tmp_path / "_understudy").iterdir()] == ["claim@3"]


def test_only_the_last_two_claims_are_kept(one: Driver, tmp_path: Path) -> None:
    for attempt in range(2, 7):
        one.gate.write(OPEN, token(5, attempt))
        assert one.claim(tmp_path)["outcome"] == "claimed"
    assert sorted(claim_files(tmp_path)) == [4, 5]
    assert [each.name for each in (tmp_path / "_understudy").iterdir() if each.name.startswith(".")] == []


def test_a_write_into_an_unclaimed_root_claims_it_first(one: Driver, tmp_path: Path) -> None:
    cases = {
        "checkpoint": "checkpoint/offsets/0",
        "state/named/like/a/part": "state/named/like/a/part/metadata",
        "stateful": "stateful/state/0/3/1.delta",
        "operator": "operator/state/0/_metadata/metadata",
        "sink": "sink/_spark_metadata/0",
    }
    for root, file in cases.items():
        one.write(tmp_path / file)
        assert standing(tmp_path / root)["holder"] == one.holder
    assert len(list(tmp_path.rglob("_understudy"))) == len(cases)


@pytest.mark.parametrize("there", [token(5, 2), token(6, 0)])
def test_a_write_into_a_root_with_a_higher_claim_is_refused(one: Driver, tmp_path: Path, there: int) -> None:
    seize(tmp_path, there)
    with pytest.raises(Py4JJavaError) as error:
        one.write(tmp_path / "offsets" / "0")
    assert refusal(error.value) == LOST
    assert not (tmp_path / "offsets" / "0").exists()


def test_a_claim_lost_between_open_and_close_is_noticed_however_many_followed(one: Driver, tmp_path: Path) -> None:
    for followers in (1, 2, 3, 9):
        root = tmp_path / str(followers)
        out = one.open(root / "offsets" / "0")
        for number in range(followers):
            seize(root, token(6, number))
        for number in sorted(claim_files(root))[:-2]:  # as a claimant does: ascending, the last two stay
            (root / "_understudy" / f"claim@{number}").unlink()
        with pytest.raises(Py4JJavaError) as error:
            out.close()
        assert refusal(error.value) == LOST
        assert not (root / "offsets" / "0").exists()
        assert one.logged(path=str(root / "offsets" / "0"), outcome="refused")[0]["reason"] == "higher-claim"


def test_a_root_that_was_wiped_is_claimed_again(one: Driver, tmp_path: Path) -> None:
    one.write(tmp_path / "offsets" / "0")
    shutil.rmtree(tmp_path / "_understudy")
    one.write(tmp_path / "offsets" / "1")
    assert standing(tmp_path)["holder"] == one.holder


def test_a_raised_token_claims_known_roots_again_by_itself(one: Driver, tmp_path: Path) -> None:
    one.write(tmp_path / "offsets" / "0")
    one.gate.write(OPEN, token(9, 0))
    one.write(tmp_path / "offsets" / "1")
    assert standing(tmp_path)["token"] == token(9, 0)


def recorded(one: Driver, root: Path, number: int) -> tuple[str, str]:
    answer = json.loads(one.fence.claim(str(root), one.conf, number, -1))
    return answer["outcome"], answer["reason"]


def test_a_root_that_was_claimed_before_and_has_no_claim_is_refused(one: Driver, tmp_path: Path) -> None:
    for name in ("gone", "emptied", "copied without its claim"):
        root = tmp_path / name
        if name != "gone":
            (root / "offsets").mkdir(parents=True)
        if name == "copied without its claim":
            (root / "offsets" / "0").write_text("v1")
        one.fence.prepare(str(root), one.conf)
        assert recorded(one, root, 0) == ("refused", "missing-claim")
        assert not (root / "_understudy").exists(), "nothing is written where something is amiss"
    assert one.claim(tmp_path / "gone")["outcome"] == "claimed", "of what is not recorded it is a new one"


@pytest.mark.parametrize(
    ("stands", "record", "told"),
    [
        (token(2, 1), token(2, 2), ("refused", "behind-record")),
        (token(2, 1), token(3, 0), ("refused", "behind-record")),
        (token(2, 1), token(2, 1), ("claimed", "")),
        (token(3, 1), token(2, 1), ("claimed", "")),
        (token(2, 1), 0, ("claimed", "")),
        (token(7, 1), token(6, 1), ("refused", "higher-token")),
    ],
)
def test_a_root_whose_claim_is_older_than_the_record_was_restored_from_a_copy(
    one: Driver, tmp_path: Path, stands: int, record: int, told: tuple[str, str]
) -> None:
    seize(tmp_path, stands)
    one.fence.prepare(str(tmp_path), one.conf)
    assert recorded(one, tmp_path, record) == told
    assert (standing(tmp_path)["holder"] == one.holder) == (told[0] == "claimed")
    if told[0] == "claimed":
        assert recorded(one, tmp_path, record) == ("repeat", "")


def test_of_eight_processes_claiming_at_once_the_highest_token_stands(tmp_path: Path) -> None:
    source = tmp_path / "Claimant.java"
    source.write_text(CLAIMANT)
    subprocess.run(["javac", "-cp", class_path(), "-d", str(tmp_path), str(source)], check=True)
    root = tmp_path / "root"
    started = []
    for number in range(8):
        claim = [str(root), str(token(1, number // 2)), f"holder{number}"]  # every token twice: equal, two holders
        command = ["java", "-Xmx32m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-cp", f"{class_path()}:{tmp_path}", "dev.understudy.fence.Claimant", *claim]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    with ThreadPoolExecutor(8) as pool:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        verdicts = [out.strip() for out, _ in pool.map(lambda process: process.communicate("\n"), started)]
    assert set(verdicts) <= {"CLAIMED", "HIGHER_TOKEN", "OTHER_HOLDER"}
    assert standing(root)["token"] == token(1, 3)
    winners = [number for number, verdict in enumerate(verdicts) if verdict == "CLAIMED"]
    assert len({number // 2 for number in winners}) == len(winners), "two holders won with one token"
    assert standing(root)["holder"] == f"holder{max(winners)}"


@pytest.mark.parametrize("manager", ["org.example.TheirOwn", None])
def test_nothing_is_claimed_for_a_session_whose_checkpoints_another_manager_writes(
    one: Driver, tmp_path: Path, manager: str | None
) -> None:
    conf = one.jvm.org.apache.hadoop.conf.Configuration(one.conf)
    key = "spark.sql.streaming.checkpointFileManagerClass"
    conf.unset(key) if manager is None else conf.set(key, manager)
    with pytest.raises(Py4JJavaError, match=f"{key} is {manager or 'null'}"):
        one.fence.claim(str(tmp_path), conf)
    assert not claim_files(tmp_path)
