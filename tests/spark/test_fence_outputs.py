"""Several jobs append to one table directory: each is fenced from its own past, and none from the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.doubles.pages import OPEN, token
from tests.spark.fence_env import LOST, OUTPUTS, SPARK_OPTIONS, Driver, Job, claim_files, driver, refusal, seize

pytestmark = pytest.mark.spark

OURS = OUTPUTS / "c" / "j"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Driver, Driver]]:
    """The leaders of two jobs."""
    with (
        driver(tmp_path_factory.mktemp("j"), options=SPARK_OPTIONS) as one,
        driver(tmp_path_factory.mktemp("k"), options=SPARK_OPTIONS, job="k") as other,
    ):
        for each in (one, other):
            each.gate.write(OPEN, token(5, 1))
        yield one, other


@pytest.fixture
def one(pair: tuple[Driver, Driver]) -> Driver:
    pair[0].gate.write(OPEN, token(5, 1))
    return pair[0]


def refused(one: Driver, out: Path) -> str:
    with pytest.raises(Py4JJavaError) as error:
        Job(one, out).commit()
    assert refusal(error.value) == LOST
    return str(one.logged(path=str(out), op="setupJob")[-1]["reason"])


def test_two_jobs_append_to_one_directory_in_turn(pair: tuple[Driver, Driver], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        for each in pair:
            Job(each, out).commit()
    for each, job in zip(pair, ("j", "k"), strict=True):
        assert [claim["holder"] for claim in claim_files(out, OUTPUTS / "c" / job).values()] == [each.holder]
        assert each.logged(path=str(out), outcome="refused") == []
    assert claim_files(out) == {}, "the directory as a whole is not claimed"


@pytest.mark.parametrize("below", [OURS, Path("_understudy")])  # the latter as a release before had it
def test_a_job_is_fenced_from_its_own_successor(one: Driver, tmp_path: Path, below: Path) -> None:
    first, then = tmp_path / "claimed before the first look", tmp_path / "claimed since"
    seize(first, token(6), below=below)
    assert refused(one, first) == "higher-claim"
    Job(one, then).commit()
    for number in (1, 2):  # one above what this driver has claimed itself
        seize(then, token(6, number), below=below)
    assert refused(one, then) == "higher-claim"


def test_a_claim_of_an_earlier_release_is_followed_where_it_stands(one: Driver, tmp_path: Path) -> None:
    seize(tmp_path, token(4))
    Job(one, tmp_path).commit()
    assert [claim["token"] for claim in claim_files(tmp_path).values()] == [token(4), token(5, 1)]
    assert claim_files(tmp_path, OURS) == {}


def test_another_jobs_claim_of_an_earlier_release_is_in_the_way_only_of_a_streaming_sinks_log(
    one: Driver, tmp_path: Path
) -> None:
    batches, streamed = tmp_path / "batches", tmp_path / "streamed"
    for root in (batches, streamed):
        seize(root, token(9), job="k")
    (streamed / "_spark_metadata").mkdir()
    Job(one, batches).commit()
    assert claim_files(batches, OURS)[1]["holder"] == one.holder
    assert claim_files(batches)[1]["job"] == "k"
    assert refused(one, streamed) == "other-job"
    noted = json.loads(one.fence.refusal())
    assert (noted["kind"], noted["where"]) == ("foreign", str(streamed))
    assert "job k of cluster c" in noted["what"]


def test_a_streaming_sink_has_one_job(pair: tuple[Driver, Driver], tmp_path: Path) -> None:
    one, other = pair
    assert one.claim(tmp_path)["outcome"] == "claimed"
    answer = other.claim(tmp_path)
    assert (answer["outcome"], answer["reason"], answer["job"]) == ("refused", "other-job", "j")


def test_what_lies_below_a_root_that_is_claimed_as_a_whole_is_covered_by_that_claim(
    one: Driver, tmp_path: Path
) -> None:
    one.claim(tmp_path)
    Job(one, tmp_path / "region=north").commit()
    assert [each.parent for each in tmp_path.rglob("_understudy")] == [tmp_path]
    seize(tmp_path, token(6))
    assert refused(one, tmp_path / "region=north") == "higher-claim"


def test_an_output_that_was_forgotten_is_claimed_again(one: Driver, tmp_path: Path) -> None:
    """A script may have a directory for each batch; what is known of them must not grow."""
    for number in range(300):
        Job(one, tmp_path / str(number)).protocol.setupJob(Job(one, tmp_path / str(number)).context)
    Job(one, tmp_path / "0").commit()
    assert list(claim_files(tmp_path / "0", OURS)) == [1]
    seize(tmp_path / "1", token(6), below=OURS)
    assert refused(one, tmp_path / "1") == "higher-claim"
