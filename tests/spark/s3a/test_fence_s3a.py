"""The fence on ``s3a://``, against a real S3 server: conditional PUTs, one bounded attempt, and lost answers."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from testkit import s3
from tests.doubles.pages import CLOSED, OPEN, token
from tests.spark.fence_env import EXISTS, FENCE, LOST, Driver, refusal, spark
from tests.spark.s3a_driver import closes, ending, names

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def stored(one: Driver, path: str) -> Path:
    return one.extra["data"] / path.removeprefix(f"s3a://{s3.BUCKET}/")


def standing(one: Driver, root: str) -> dict[str, Any]:
    return json.loads(stored(one, f"{root}/_understudy/claim").read_text())


def seize(one: Driver, root: str, number: int) -> None:
    """What another replica does: through the fence's own store, with another holder."""
    path = stored(one, f"{root}/_understudy/claim")
    claim = {"version": 1, "token": number, "holder": "another", "cluster": "c", "job": "j", "lock": "file"}
    files = one.path(root).getFileSystem(one.conf)
    out = files.create(one.path(f"{root}/_understudy/claim"), True)
    out.write(bytearray(json.dumps(claim).encode()))
    out.close()
    assert json.loads(path.read_text())["token"] == number


def test_of_sixteen_writers_of_one_entry_exactly_one_wins(one: Driver, root: str) -> None:
    for batch in range(5):
        path = f"{root}/offsets/{batch}"
        streams = [one.open(path) for _ in range(16)]
        for number, out in enumerate(streams):
            out.write(bytearray(b"%d" % number))
        with ThreadPoolExecutor(16) as pool:
            outcomes = list(pool.map(closes, streams))
        won = [number for number, outcome in enumerate(outcomes) if outcome == ""]
        assert len(won) <= 1
        if set(outcomes) <= {"", EXISTS}:  # on a busy machine a write may time out, and then the winner is unknown
            assert len(won) == 1
        if won:
            assert stored(one, path).read_bytes() == b"%d" % won[0]


def test_a_root_is_claimed_by_compare_and_set(one: Driver, root: str) -> None:
    assert one.claim(root)["outcome"] == "claimed"
    assert one.claim(root)["outcome"] == "repeat"
    one.gate.write(OPEN, token(5, 2))
    assert one.claim(root)["outcome"] == "claimed"
    assert standing(one, root)["token"] == token(5, 2)
    seize(one, root, token(6))
    refused = one.claim(root)
    assert (refused["outcome"], refused["reason"], refused["holder"]) == ("refused", "higher-token", "another")


def test_a_claim_that_changed_after_it_was_read_is_not_overwritten(one: Driver, root: str) -> None:
    seize(one, root, token(1))
    overtaken = threading.Event()

    def overtake(line: str) -> str:
        if line.startswith("PUT ") and not overtaken.is_set():
            overtaken.set()
            seize(one, root, token(6))
        return "pass"

    one.extra["proxy"].rule = overtake
    assert one.claim(root)["reason"] == "higher-token"
    assert overtaken.is_set()
    assert standing(one, root)["token"] == token(6)


def claiming(one: Driver, root: str) -> tuple[dict[str, Any], list[str]]:
    """The answer, and what was asked of the server for it."""
    since = len(one.extra["proxy"].seen)
    answer = one.claim(root)
    lines = [line.split(" ") for line in one.extra["proxy"].seen[since:]]
    return answer, [verb for verb, path, *_ in lines if path.endswith("/_understudy/claim")]


@pytest.mark.parametrize("first", [True, False])
def test_a_prepared_claim_begins_with_the_write(one: Driver, root: str, first: bool) -> None:
    if not first:
        seize(one, root, token(4))
    one.fence.prepare(root, one.conf)
    answer, asked = claiming(one, root)
    assert answer["outcome"] == "claimed"
    assert asked == ["PUT", "HEAD", "GET"]
    assert standing(one, root)["holder"] == one.holder
    again, asked = claiming(one, root)
    assert (again["outcome"], asked) == ("repeat", ["HEAD", "GET"]), "what was prepared is for the first claim only"


@pytest.mark.parametrize(("met", "outcome"), [(4, "claimed"), (6, "refused")])
def test_a_claim_that_was_prepared_long_ago_decides_nothing(one: Driver, root: str, met: int, outcome: str) -> None:
    seize(one, root, token(3))
    one.fence.prepare(root, one.conf)
    seize(one, root, token(met))
    answer, asked = claiming(one, root)
    assert answer["outcome"] == outcome
    assert asked[:3] == ["PUT", "HEAD", "GET"]
    assert standing(one, root)["holder"] == (one.holder if outcome == "claimed" else "another")


def test_a_stale_write_is_refused(one: Driver, root: str) -> None:
    out = one.open(f"{root}/offsets/0")
    out.write(bytearray(b"stale"))
    seize(one, root, token(6))
    assert closes(out) == LOST
    assert not stored(one, f"{root}/offsets/0").exists()
    (line,) = one.logged(path=f"{root}/offsets/0")
    assert (line["op"], line["outcome"], line["reason"]) == ("publish", "refused", "higher-claim")


def test_a_stale_leader_cannot_delete(one: Driver, root: str) -> None:
    one.write(f"{root}/offsets/0")
    seize(one, root, token(6))
    with pytest.raises(Py4JJavaError) as error:
        one.manager(root).delete(one.path(f"{root}/offsets/0"))
    assert refusal(error.value) == LOST
    assert stored(one, f"{root}/offsets/0").exists()


#: What a server answers that has certainly not done it (503, 429, 409), or may have and is done with it (500).
ANSWERED = ("503", "429", "409", "500")


@pytest.mark.parametrize("status", ANSWERED)
def test_what_was_answered_and_not_done_is_sent_again_behind_a_look_at_the_claim(
    one: Driver, root: str, status: str
) -> None:
    """Hadoop's own client would try for minutes without asking the gate; giving up at once costs a driver."""
    proxy = one.extra["proxy"]
    one.claim(root)
    path = f"{root}/offsets/0"
    since = len(proxy.seen)
    refused = [status, status, status]
    proxy.rule = lambda line: refused.pop() if refused and line.startswith("PUT ") else "pass"
    one.write(path, b"once")
    assert stored(one, path).read_bytes() == b"once"
    asked = [tuple(line.split(" ")[:2]) for line in proxy.seen[since:]]
    entry, claim = (f"/{s3.BUCKET}/{ending(root)}/{name}" for name in ("offsets/0", "_understudy/claim"))
    assert [each for each in asked if each[1] == claim or each[0] == "PUT"] == [("HEAD", claim), ("PUT", entry)] * 4
    assert (("HEAD", entry) in asked) == (status == "500"), "what may have been done is looked at"
    assert [line["outcome"] for line in one.logged(path=path)] == ["accepted"]


def test_a_write_that_was_done_although_500_was_answered_is_recognised_as_ones_own(one: Driver, root: str) -> None:
    proxy = one.extra["proxy"]
    one.claim(root)
    proxy.rule = lambda line: "late 500" if line.startswith("PUT ") else "pass"
    one.write(f"{root}/offsets/0", b"once")
    assert len(proxy.puts(f"{ending(root)}/offsets/0")) == 1
    assert [line["outcome"] for line in one.logged(path=f"{root}/offsets/0")] == ["accepted"]


@pytest.mark.parametrize("status", ["502", "504"])
def test_an_answer_that_leaves_it_open_gets_one_attempt_and_the_failure_is_reported(
    one: Driver, root: str, status: str
) -> None:
    proxy = one.extra["proxy"]
    one.claim(root)
    out = one.open(f"{root}/offsets/0")
    proxy.rule = lambda line: status if line.startswith("PUT ") else "pass"
    assert closes(out) not in {"", EXISTS, LOST}
    assert len(proxy.puts(f"{ending(root)}/offsets/0")) == 1
    (line,) = one.logged(path=f"{root}/offsets/0")
    assert (line["op"], line["outcome"]) == ("publish", "unknown")


def test_what_exists_and_cannot_be_looked_at_may_be_ones_own_and_is_no_conflict(one: Driver, root: str) -> None:
    """Taken for another's, it would be a batch of a sink whose files are deleted, while the log that names them is our own."""
    proxy = one.extra["proxy"]
    one.claim(root)
    entry = f"/{ending(root)}/offsets/0"
    first = ["late 500"]

    def blind(line: str) -> str:
        verb, path, _ = line.split(" ")
        if not path.endswith(entry):
            return "pass"
        return "403" if verb == "HEAD" else first.pop() if first and verb == "PUT" else "pass"

    out = one.open(f"{root}/offsets/0")
    proxy.rule = blind
    assert closes(out) not in {"", EXISTS, LOST}
    assert len(proxy.puts(entry)) == 2
    assert [line["outcome"] for line in one.logged(path=f"{root}/offsets/0")] == ["unknown"]
    proxy.rule = lambda line: "pass"
    assert [each["in_flight"] for each in one.state()["roots"] if each["root"] == root] == [0], "it stands there"


def test_what_was_refused_as_too_busy_is_not_sent_again_once_the_root_is_anothers(one: Driver, root: str) -> None:
    proxy = one.extra["proxy"]
    one.claim(root)
    out = one.open(f"{root}/offsets/0")

    def last(line: str) -> str:
        if not line.startswith("PUT "):
            return "pass"
        proxy.rule = lambda line: "pass"
        seize(one, root, token(6))
        return "503"

    proxy.rule = last
    assert closes(out) == LOST
    assert len(proxy.puts(f"{ending(root)}/offsets/0")) == 1
    assert not stored(one, f"{root}/offsets/0").exists()


@pytest.mark.parametrize("seconds", [0.5, pytest.param(62, marks=pytest.mark.long)])
def test_what_was_refused_as_too_busy_is_not_sent_again_while_the_gate_is_closed(
    one: Driver, root: str, seconds: float
) -> None:
    """Nor does the wait use up the minute for which busy answers are borne: another one, right after an outage, costs no driver."""
    proxy = one.extra["proxy"]
    one.claim(root)
    out = one.open(f"{root}/offsets/0")
    sent = threading.Event()

    def busy(line: str) -> str:
        if not line.startswith("PUT "):
            return "pass"
        if sent.is_set():
            proxy.rule = lambda line: "pass"
        else:
            one.gate.write(CLOSED, token(5, 1))
            sent.set()
        return "503"

    proxy.rule = busy
    told: list[str] = []
    closing = threading.Thread(target=lambda: told.append(closes(out)), daemon=True)
    closing.start()
    assert sent.wait(20)
    closing.join(seconds)
    assert closing.is_alive()
    assert len(proxy.puts(f"{ending(root)}/offsets/0")) == 1
    one.gate.write(OPEN, token(5, 1))
    closing.join(20)
    assert told == [""]
    assert len(proxy.puts(f"{ending(root)}/offsets/0")) == 3
    assert stored(one, f"{root}/offsets/0").exists()


def test_a_store_that_asks_a_third_of_its_clients_to_slow_down_costs_no_driver(one: Driver, root: str) -> None:
    proxy = one.extra["proxy"]
    proxy.rule = s3.share("503", 0.33)
    assert one.claim(root)["outcome"] in {
        "claimed",
        "repeat",
    }  # a repeat: it had landed, and the look at it was refused
    manager = one.manager(f"{root}/offsets")
    for batch in range(8):
        one.write(f"{root}/offsets/{batch}", b"%d" % batch)
    big = b"x" * (5 << 20)  # more than is kept in memory until it is published
    one.write(f"{root}/state/0/0/1.delta", big, overwrite=True)
    for batch in range(4):
        manager.delete(one.path(f"{root}/offsets/{batch}"))
    proxy.rule = lambda line: "pass"
    assert names(one, one.manager(f"{root}/offsets"), f"{root}/offsets") == ["4", "5", "6", "7"]
    assert stored(one, f"{root}/state/0/0/1.delta").read_bytes() == big
    assert {line["outcome"] for line in one.log() if str(line["path"]).startswith(root)} == {"accepted"}


def test_a_server_that_takes_no_connection_is_waited_for(one: Driver, root: str) -> None:
    proxy = one.extra["proxy"]
    one.claim(root)
    out = one.open(f"{root}/offsets/0")
    with proxy.away():
        closing = threading.Thread(target=closes, args=(out,), daemon=True)
        closing.start()
        closing.join(0.5)
        assert closing.is_alive()
    closing.join(20)
    assert stored(one, f"{root}/offsets/0").exists()


def test_a_server_that_does_not_answer_is_given_the_write_time_out_and_no_second_attempt(
    one: Driver, root: str
) -> None:
    proxy = one.extra["proxy"]
    one.claim(root)
    out = one.open(f"{root}/offsets/0")
    proxy.rule = lambda line: "hang" if line.startswith("PUT ") else "pass"
    closing = threading.Thread(target=closes, args=(out,), daemon=True)
    closing.start()
    closing.join(14)  # S3A would raise a time-out of 3 s to 15
    assert not closing.is_alive()
    assert len(proxy.puts(f"{root.rsplit('/', 1)[1]}/offsets/0")) == 1


@pytest.mark.parametrize("verb", ["HEAD", "DELETE"])
@pytest.mark.parametrize("trouble", ["hang", "swallow"])
def test_what_may_be_done_twice_is_sent_again_when_no_answer_came(
    one: Driver, root: str, verb: str, trouble: str
) -> None:
    """A machine that was busy for two seconds, or a connection that broke, cost a driver, which plain Spark would have kept."""
    proxy = one.extra["proxy"]
    one.claim(root)
    one.write(f"{root}/offsets/0")
    lost = [verb]
    proxy.rule = lambda line: trouble if lost and line.startswith(verb) and lost.pop() else "pass"
    one.manager(f"{root}/offsets").delete(one.path(f"{root}/offsets/0"))
    assert not lost
    assert not stored(one, f"{root}/offsets/0").exists()


def test_nothing_is_sent_after_the_gate_closed(one: Driver, root: str) -> None:
    proxy = one.extra["proxy"]
    one.claim(root)
    out = one.open(f"{root}/offsets/0")
    one.gate.write(CLOSED, token(5, 1))
    closing = threading.Thread(target=closes, args=(out,), daemon=True)
    closing.start()
    closing.join(0.5)
    assert closing.is_alive()
    assert proxy.puts(f"{root.rsplit('/', 1)[1]}/offsets/0") == []
    one.gate.write(OPEN, token(5, 1))
    closing.join(20)
    assert stored(one, f"{root}/offsets/0").exists()


def test_a_write_whose_answer_was_lost_is_recognised_as_ones_own(one: Driver, root: str) -> None:
    proxy = one.extra["proxy"]
    one.claim(root)
    proxy.rule = lambda line: "swallow" if line.startswith("PUT ") else "pass"
    one.write(f"{root}/offsets/0", b"once")
    assert stored(one, f"{root}/offsets/0").read_bytes() == b"once"
    assert len(proxy.puts(f"{root.rsplit('/', 1)[1]}/offsets/0")) == 1
    assert [line["outcome"] for line in one.logged(path=f"{root}/offsets/0")] == ["accepted"]


def test_a_claim_whose_answer_was_lost_is_recognised_as_ones_own(one: Driver, root: str) -> None:
    one.extra["proxy"].rule = lambda line: "swallow" if line.startswith("PUT ") else "pass"
    assert one.claim(root)["outcome"] == "claimed"
    assert standing(one, root)["holder"] == one.holder


@pytest.mark.parametrize(
    ("trouble", "failures"),
    [
        ("503", 7),
        ("502", 7),
        ("hang", 2),
    ],  # failures: more than a claim's own attempts; time-outs: one for a look, one for a write
)
def test_a_claim_waits_for_a_store_that_comes_back(one: Driver, root: str, trouble: str, failures: int) -> None:
    """After an outage a leader may be back before the store is; a driver that died of it would take far longer."""
    proxy = one.extra["proxy"]
    since = len(proxy.seen)
    proxy.rule = lambda line: trouble if len(proxy.seen) - since <= failures else "pass"
    assert one.claim(root)["outcome"] == "claimed"
    assert len(proxy.seen) - since > failures


def test_a_look_alike_of_another_writer_is_no_success(one: Driver, root: str) -> None:
    out = one.open(f"{root}/commits/0")
    out.write(bytearray(b"the same bytes"))
    one.write(f"{root}/commits/0", b"the same bytes")
    assert closes(out) == EXISTS


def test_a_streaming_query_runs_through_it_and_a_stale_one_fails(one: Driver, root: str, tmp_path: Path) -> None:
    session = spark(one, {**FENCE, **s3.settings(one.extra["proxy"].port)})
    (tmp_path / "in").mkdir()

    def run(name: str, line: str) -> None:
        (tmp_path / "in" / name).write_text(line + "\n")
        now = one.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()
        lines = session.readStream().format("text").load(str(tmp_path / "in")).dropDuplicates()
        writer = lines.writeStream().format("parquet").trigger(now).option("checkpointLocation", f"{root}/checkpoint")
        writer.start(str(tmp_path / "out")).awaitTermination()

    run("1", "a")
    found = session.read().parquet(str(tmp_path / "out")).collectAsList()
    assert [row.getString(0) for row in found] == ["a"]
    assert stored(one, f"{root}/checkpoint/commits/0").exists()
    assert standing(one, f"{root}/checkpoint")["holder"] == one.holder
    seize(one, f"{root}/checkpoint", token(6))
    with pytest.raises(Py4JJavaError) as error:
        run("2", "b")
    assert refusal(error.value) == LOST
    assert not stored(one, f"{root}/checkpoint/offsets/1").exists()
