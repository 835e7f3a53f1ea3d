"""Which errors of a query say that its predecessor's last write landed late."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from understudy.driver.conflict_recovery import is_log_conflict

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
