"""Every kind of statement of Spark SQL: what looks passes on a standby, what changes anything waits for the grant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import create_map, lit

from tests.spark.rehearsal_stage import spark_session
from understudy.driver.statements import Effect, effect_of

pytestmark = [pytest.mark.spark, pytest.mark.spark43]

LOOKS = (
    "SELECT 1",
    "VALUES (1)",
    "FROM x SELECT *",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    "SHOW TABLES",
    "SHOW CREATE TABLE x",
    "DESCRIBE x",
    "DESC EXTENDED x",
    "EXPLAIN SELECT 1",
    "EXPLAIN INSERT INTO x VALUES (1)",
    "SET a=1",
    "SET",
    "SET TIME ZONE 'UTC'",
    "RESET",
    "USE x",
    "USE NAMESPACE x",
    "SET CATALOG x",
    "CACHE TABLE x",
    "CACHE LAZY TABLE y AS SELECT 1",
    "UNCACHE TABLE x",
    "CLEAR CACHE",
    "REFRESH TABLE x",
    "REFRESH '/x'",
    "LIST JARS",
    "ADD JAR '/x.jar'",
    "ADD FILE '/x'",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
    "CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '/x')",
    "CREATE TEMPORARY FUNCTION f AS 'a.b'",
    "CREATE OR REPLACE TEMPORARY FUNCTION g(x INT) RETURNS INT RETURN x",
    "DECLARE VARIABLE q INT",
    "SET VARIABLE q = 1",
    "DROP TEMPORARY VARIABLE q",
    "DROP TEMPORARY FUNCTION f",
    "SELECT * FROM IDENTIFIER(:t)",
    "WITH a AS (SELECT * FROM IDENTIFIER(:t)) SELECT * FROM a",
    "USE IDENTIFIER(:t)",
    "SHOW TABLES IN IDENTIFIER(:t)",
    "DESCRIBE IDENTIFIER(:t)",
    "REFRESH TABLE IDENTIFIER(:t)",
)

CHANGES = (
    "INSERT INTO x VALUES (1)",
    "INSERT OVERWRITE x SELECT 1",
    "INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1",
    "FROM y INSERT INTO x SELECT * INSERT INTO z SELECT *",
    "MERGE INTO x USING y ON x.a=y.a WHEN MATCHED THEN DELETE",
    "UPDATE x SET a=1",
    "DELETE FROM x",
    "CREATE TABLE x (a INT) USING parquet",
    "CREATE TABLE IF NOT EXISTS x (a INT) USING parquet",
    "CREATE TABLE x AS SELECT 1",
    "CREATE OR REPLACE TABLE x AS SELECT 1",
    "CREATE VIEW v AS SELECT 1",
    "CREATE FUNCTION f AS 'a.b'",
    "CREATE DATABASE IF NOT EXISTS d",
    "ALTER TABLE x ADD COLUMN b INT",
    "ALTER TABLE x SET TBLPROPERTIES ('a'='b')",
    "ALTER TABLE x SET LOCATION '/y'",
    "ALTER VIEW v SET TBLPROPERTIES ('a'='b')",
    "ALTER TABLE x UNSET TBLPROPERTIES ('a')",
    "ALTER DATABASE d SET DBPROPERTIES ('a'='b')",
    "ALTER TABLE x RENAME TO y",
    "DROP TABLE IF EXISTS x",
    "DROP VIEW v",
    "DROP DATABASE d",
    "TRUNCATE TABLE x",
    "ANALYZE TABLE x COMPUTE STATISTICS",
    "MSCK REPAIR TABLE x",
    "LOAD DATA INPATH '/x' INTO TABLE y",
    "COMMENT ON TABLE x IS 'y'",
    "CALL a.b.c()",
    "EXECUTE IMMEDIATE 'INSERT INTO x VALUES (1)'",
    "BEGIN INSERT INTO x VALUES (1); END",
    "BEGIN SELECT 1; END",
    "WITH a AS (SELECT 1 AS a) INSERT INTO x SELECT * FROM a",
    "INSERT INTO IDENTIFIER(:t) SELECT 1",
    "INSERT OVERWRITE IDENTIFIER(:t) SELECT 1",
    "FROM y INSERT INTO IDENTIFIER(:t) SELECT * INSERT INTO IDENTIFIER(:u) SELECT *",
    "WITH a AS (SELECT 1) INSERT INTO IDENTIFIER(:t) SELECT * FROM a",
    "CREATE TABLE IF NOT EXISTS IDENTIFIER(:t) (a INT)",
    "CREATE DATABASE IF NOT EXISTS IDENTIFIER(:t)",
    "CREATE VIEW IF NOT EXISTS IDENTIFIER(:t) AS SELECT 1",
    "CREATE FUNCTION IDENTIFIER(:t) AS 'a.b'",
    "DELETE FROM IDENTIFIER(:t)",
    "DROP TABLE IF EXISTS IDENTIFIER(:t)",
    "DROP VIEW IF EXISTS IDENTIFIER(:t)",
    "ALTER VIEW v AS SELECT 2",
    "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
    "CREATE FUNCTION IF NOT EXISTS f AS 'a.b'",
)

WITH_MARKERS = (
    ("INSERT INTO x SELECT INTERVAL :n DAY", {"n": "3"}),
    ("INSERT INTO x SELECT CAST(1 AS DECIMAL(:n, 0))", {"n": 3}),
    ("INSERT INTO x SELECT ? LIMIT ?", [1, 2]),
    ("INSERT OVERWRITE DIRECTORY :p USING parquet SELECT 1", {"p": "/x"}),
    ("CREATE TABLE y (a VARCHAR(?)) USING parquet", [5]),
    ("CREATE TABLE y (a INT) USING parquet LOCATION :p", {"p": "/x"}),
    ("CREATE TABLE y USING parquet OPTIONS (path = :p) AS SELECT 1", {"p": "/x"}),
    ("ALTER TABLE x SET LOCATION :p", {"p": "/x"}),
    ("ALTER TABLE x SET TBLPROPERTIES ('a' = :v)", {"v": "1"}),
    ("COMMENT ON TABLE x IS :v", {"v": "y"}),
    ("DROP TABLE IDENTIFIER(:t)", {"t": "x"}),
)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def shop(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE shop.orders (a INT) USING parquet")
    yield
    spark.sql("DROP DATABASE shop CASCADE")


def changes(spark: SparkSession, text: str) -> bool:
    return effect_of(spark, text) is Effect.CHANGES


@pytest.mark.parametrize("text", LOOKS)
def test_what_only_looks_or_is_the_sessions_own_passes(spark: SparkSession, text: str) -> None:
    queried = text.startswith(("SELECT", "VALUES", "FROM", "WITH"))
    assert effect_of(spark, text) is (Effect.NONE if queried else Effect.OWN)


@pytest.mark.parametrize("text", CHANGES)
def test_what_changes_something_waits(spark: SparkSession, text: str) -> None:
    assert changes(spark, text)


@pytest.mark.parametrize(("text", "arguments"), WITH_MARKERS)
def test_a_marker_where_only_its_value_can_be_read_hides_no_change(
    spark: SparkSession, text: str, arguments: dict[str, object] | list[object]
) -> None:
    assert effect_of(spark, text, arguments) is Effect.CHANGES
    assert effect_of(spark, f"EXPLAIN {text}", arguments) is Effect.OWN


def test_a_query_with_markers_is_one_and_a_value_that_cannot_be_written_out_may_hide_a_change(
    spark: SparkSession,
) -> None:
    assert effect_of(spark, "SELECT id + INTERVAL :n DAY FROM x", {"n": "3"}) is Effect.NONE
    assert effect_of(spark, "SELECT ? FROM x LIMIT ?", [create_map(lit("a"), lit(1)), 2]) is Effect.NONE
    assert effect_of(spark, "INSERT INTO x VALUES (:v)", {"v": object()}) is Effect.CHANGES
    assert effect_of(spark, "INSERT INTO x NOWHERE :v", {"v": 1}) is Effect.NONE


@pytest.mark.usefixtures("shop")
def test_what_is_made_only_if_it_is_missing_passes_where_it_is_there(spark: SparkSession) -> None:
    assert not changes(spark, "CREATE DATABASE IF NOT EXISTS shop")
    assert not changes(spark, "CREATE TABLE IF NOT EXISTS shop.orders (a INT) USING parquet")
    assert not changes(spark, "CREATE TABLE IF NOT EXISTS shop.orders AS SELECT 1")
    spark.sql("CREATE VIEW shop.large AS SELECT 1 AS a")
    assert not changes(spark, "CREATE VIEW IF NOT EXISTS shop.large AS SELECT 2")
    assert changes(spark, "CREATE OR REPLACE VIEW shop.large AS SELECT 2")
    assert changes(spark, "CREATE DATABASE shop")
    assert changes(spark, "CREATE TABLE IF NOT EXISTS shop.more (a INT) USING parquet")


def test_a_temporary_view_is_dropped_and_altered_by_its_session_alone(spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("mine")
    assert not changes(spark, "ALTER VIEW mine AS SELECT 2")
    assert not changes(spark, "DROP VIEW IF EXISTS mine")
    assert changes(spark, "DROP VIEW default.mine")
    spark.catalog.dropTempView("mine")
    assert changes(spark, "DROP VIEW IF EXISTS mine")


def test_a_database_in_memory_passes_where_another_session_has_made_its_directory(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    assert changes(spark, "CREATE DATABASE IF NOT EXISTS elsewhere")
    assert changes(spark, f"CREATE DATABASE IF NOT EXISTS elsewhere LOCATION '{tmp_path}/place'")
    assert not changes(spark, f"CREATE DATABASE IF NOT EXISTS elsewhere LOCATION '{tmp_path}'")
    (warehouse / "elsewhere.db").mkdir(parents=True)
    assert not changes(spark, "CREATE DATABASE IF NOT EXISTS Elsewhere")
    assert changes(spark, "CREATE DATABASE Elsewhere")
    (warehouse / "elsewhere.db").rmdir()


def test_what_spark_cannot_read_is_left_to_spark(spark: SparkSession) -> None:
    assert not changes(spark, "INSERT NOTHING NOWHERE")
