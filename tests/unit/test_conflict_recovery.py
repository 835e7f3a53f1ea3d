"""Which errors of a query say that its predecessor's last write landed late, and which queries are restarted then."""

from __future__ import annotations

import json
import re
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from understudy.driver.conflict_recovery import ConflictRecovery, is_log_conflict
from understudy.protocol.gate import State

JARS = Path(pyspark.__file__).parent / "jars"

#: Two queries of one session, which no predecessor can be.
OF_ONE_SESSION = {"CONCURRENT_QUERY"}

DELTA = {
    "DELTA_CONCURRENT_TRANSACTION": "ConcurrentTransactionException: This error occurs when multiple streaming queries are using "
    "the same checkpoint to write into this table.",
    "DELTA_CONCURRENT_APPEND": "Transaction conflict detected. a concurrent STREAMING UPDATE added data to table t",
    "DELTA_PROTOCOL_CHANGED": "ProtocolChangedException: The protocol version of the Delta table has been changed",
    "DELTA_METADATA_CHANGED": "MetadataChangedException: The metadata of the Delta table t has been changed",
}


def read(jar: str, member: str) -> bytes:
    (path,) = JARS.glob(f"{jar}-[0-9]*.jar")
    with zipfile.ZipFile(path) as archive:
        return archive.read(member)


def conditions() -> dict[str, Any]:
    return dict(json.loads(read("spark-common-utils_2.13", "error/error-conditions.json")))


def test_what_spark_says_of_two_writers_of_one_log_is_a_conflict() -> None:
    told = {name: " ".join(condition["message"]) for name, condition in conditions().items()}
    of_two = {name for name, text in told.items() if re.search("(?i)multiple stream|instance of this query", text)}
    assert of_two > OF_ONE_SESSION
    for name in of_two - OF_ONE_SESSION:
        assert is_log_conflict(ValueError(told[name])), name


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("ManifestFileCommitProtocol", "Race while writing batch 7"),
        ("runtime/FileStreamSource", "Concurrent update to the log. Multiple streaming jobs detected for 7"),
    ],
)
def test_what_spark_says_without_an_error_class_is_a_conflict(where: str, said: str) -> None:
    code = read("spark-sql_2.13", f"org/apache/spark/sql/execution/streaming/{where}.class")
    assert said.removesuffix("7").encode() in code, "this Spark says something else"
    assert is_log_conflict(ValueError(f"[STREAM_FAILED] Query terminated with exception: {said} SQLSTATE: XXKST"))


@pytest.mark.parametrize(("name", "text"), DELTA.items())
def test_what_delta_says_of_the_same_batch_written_twice_is_a_conflict(name: str, text: str) -> None:
    assert is_log_conflict(ValueError(f"[{name}] {text}"))


@pytest.mark.parametrize(
    "text", ["[DIVIDE_BY_ZERO] Division by zero", "Path does not exist", "[CONCURRENT_QUERY] Another"]
)
def test_another_failure_is_none(text: str) -> None:
    assert not is_log_conflict(ValueError(text))


class Query:
    """Spark's: it runs, or has ended on a conflict."""

    def __init__(self, *, failed: bool) -> None:
        self.isActive = not failed

    def exception(self) -> ValueError:
        return ValueError("Concurrent update to the log. Multiple streaming jobs detected for 1")


class Pending:
    """``queries``: what stands in its place at each look, the last one from then on."""

    def __init__(self, *queries: Query) -> None:
        self._queries = list(queries)
        self.recovery, self.recovered = threading.Lock(), 0

    @property
    def query(self) -> Query:
        return self._queries.pop(0) if len(self._queries) > 1 else self._queries[0]

    @query.setter
    def query(self, query: Query) -> None:
        self._queries = [query]


def recovery(*pending: Pending, starts: list[Pending], standing: State = State.OPEN) -> ConflictRecovery:
    def start_one(query: Pending) -> None:
        starts.append(query)
        query.query = Query(failed=False)

    parts: dict[str, Any] = {
        "gate_client": SimpleNamespace(standing=lambda: standing),
        "registry": SimpleNamespace(in_callback=False, queries=lambda: list(pending)),
        "launcher": SimpleNamespace(start_one=start_one),
        "query_count": None,
        "stale_snapshot": None,
        "fence": None,
        "fence_check": None,
    }
    return ConflictRecovery(**parts)


CONFLICT = ValueError("Concurrent update to the log")


def test_every_query_that_ended_on_a_conflict_runs_again_and_the_others_are_left_alone() -> None:
    failed, runs, starts = Pending(Query(failed=True)), Pending(Query(failed=False)), list[Pending]()
    assert recovery(failed, runs, starts=starts).recover_any(CONFLICT)
    assert starts == [failed]
    assert not recovery(failed, starts=starts).recover_any(ValueError("division by zero"))


def test_a_query_that_another_thread_restarts_meanwhile_counts_as_recovered() -> None:
    """It was looked at again, ran by then, and so was taken for one that cannot be recovered: the script met the conflict."""
    for looks in (1, 2, 3):
        failed, starts = Pending(*[Query(failed=True)] * looks, Query(failed=False)), list[Pending]()
        assert recovery(failed, starts=starts).recover_any(CONFLICT), looks
        assert len(starts) <= 1


@pytest.mark.parametrize(("before", "standing"), [(2, State.OPEN), (0, State.REVOKED)])
def test_a_third_conflict_and_one_of_a_leader_that_was_are_not_recovered(before: int, standing: State) -> None:
    failed, starts = Pending(Query(failed=True)), list[Pending]()
    failed.recovered = before
    assert not recovery(failed, starts=starts, standing=standing).recover_any(CONFLICT)
    assert starts == []
