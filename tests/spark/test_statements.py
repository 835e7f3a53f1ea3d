"""Every kind of statement of Spark SQL: what looks passes on a standby, what changes anything waits for the grant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.rehearsal_stage import spark_session
from understudy.driver.statements import has_side_effects

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


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def shop(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE shop.orders (a INT) USING parquet")
    yield
    spark.sql("DROP DATABASE shop CASCADE")


@pytest.mark.parametrize("text", LOOKS)
def test_what_only_looks_or_is_the_sessions_own_passes(spark: SparkSession, text: str) -> None:
    assert not has_side_effects(spark, text)


@pytest.mark.parametrize("text", CHANGES)
def test_what_changes_something_waits(spark: SparkSession, text: str) -> None:
    assert has_side_effects(spark, text)


@pytest.mark.usefixtures("shop")
def test_what_is_made_only_if_it_is_missing_passes_where_it_is_there(spark: SparkSession) -> None:
    assert not has_side_effects(spark, "CREATE DATABASE IF NOT EXISTS shop")
    assert not has_side_effects(spark, "CREATE TABLE IF NOT EXISTS shop.orders (a INT) USING parquet")
    assert not has_side_effects(spark, "CREATE TABLE IF NOT EXISTS shop.orders AS SELECT 1")
    spark.sql("CREATE VIEW shop.large AS SELECT 1 AS a")
    assert not has_side_effects(spark, "CREATE VIEW IF NOT EXISTS shop.large AS SELECT 2")
    assert has_side_effects(spark, "CREATE OR REPLACE VIEW shop.large AS SELECT 2")
    assert has_side_effects(spark, "CREATE DATABASE shop")
    assert has_side_effects(spark, "CREATE TABLE IF NOT EXISTS shop.more (a INT) USING parquet")


def test_a_temporary_view_is_dropped_and_altered_by_its_session_alone(spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("mine")
    assert not has_side_effects(spark, "ALTER VIEW mine AS SELECT 2")
    assert not has_side_effects(spark, "DROP VIEW IF EXISTS mine")
    assert has_side_effects(spark, "DROP VIEW default.mine")
    spark.catalog.dropTempView("mine")
    assert has_side_effects(spark, "DROP VIEW IF EXISTS mine")


def test_a_database_in_memory_passes_where_another_session_has_made_its_directory(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    assert has_side_effects(spark, "CREATE DATABASE IF NOT EXISTS elsewhere")
    assert has_side_effects(spark, f"CREATE DATABASE IF NOT EXISTS elsewhere LOCATION '{tmp_path}/place'")
    assert not has_side_effects(spark, f"CREATE DATABASE IF NOT EXISTS elsewhere LOCATION '{tmp_path}'")
    (warehouse / "elsewhere.db").mkdir(parents=True)
    assert not has_side_effects(spark, "CREATE DATABASE IF NOT EXISTS Elsewhere")
    assert has_side_effects(spark, "CREATE DATABASE Elsewhere")
    (warehouse / "elsewhere.db").rmdir()


def test_what_spark_cannot_read_is_left_to_spark(spark: SparkSession) -> None:
    assert not has_side_effects(spark, "INSERT NOTHING NOWHERE")
