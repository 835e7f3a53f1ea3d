"""Every attribute that understudy replaces, and why. docs/spark-patches.md is generated from this table.

Each replacement calls the stock attribute in the end, but for those that refuse: Spark Connect, and another program in the driver's
process. A script that plain ``python`` or ``spark-submit`` runs never loads this package.
"""

from __future__ import annotations

from understudy.driver.spark_patches.registry import Patch

READER = "pyspark.sql.readwriter:DataFrameReader"
STREAM_READER = "pyspark.sql.streaming.readwriter:DataStreamReader"
STREAM_WRITER = "pyspark.sql.streaming.readwriter:DataStreamWriter"
QUERY_MANAGER = "pyspark.sql.streaming.query:StreamingQueryManager"
LISTENER = "pyspark.sql.streaming.listener:JStreamingQueryListener"
SESSION = "pyspark.sql.session:SparkSession"
BUILDER = f"{SESSION}.Builder"
CATALOG = "pyspark.sql.catalog:Catalog"
FRAME = "pyspark.sql.classic.dataframe:DataFrame"
CONTEXT = "pyspark.core.context:SparkContext"
DELTA = "delta.tables"
DELTA_BUILDER = f"{DELTA}:DeltaTableBuilder"
DELTA_MERGE = f"{DELTA}:DeltaMergeBuilder"

#: Python code of MLlib's older half, each module of which has models that save themselves.
MLLIB = tuple(f"pyspark.mllib.{name}" for name in ("util", "classification", "clustering", "regression"))

#: Readers whose frames are remembered.
READS = ("load", "parquet", "csv", "json", "orc", "text", "xml")

RDD_CHECKPOINT = "pyspark.core.rdd:RDD.checkpoint"

#: What caches a frame.
CACHES = ("cache", "persist")

#: What changes a session, or the cache that all sessions share, and nothing else.
SESSION_CHANGES = tuple(
    f"{owner}.{name}"
    for owner, names in (
        (FRAME, "createTempView createOrReplaceTempView registerTempTable unpersist"),
        (CATALOG, "dropTempView uncacheTable clearCache setCurrentDatabase setCurrentCatalog"),
        ("pyspark.sql.conf:RuntimeConfig", "set unset"),
        ("pyspark.sql.udf:UDFRegistration", "register registerJavaFunction registerJavaUDAF"),
        ("pyspark.sql.udtf:UDTFRegistration", "register"),
        ("pyspark.sql.datasource:DataSourceRegistration", "register"),
    )
    for name in names.split()
)

_GATED = "Writes in batch: waits for the grant, counts as user code while it runs, and is refused in a session without the fence."


def _each(owner: str, names: str, why: str, library: str = "PySpark", *, optional: bool = False) -> tuple[Patch, ...]:
    return tuple(Patch(f"{owner}.{name}", why, library, optional=optional) for name in names.split())


_STREAMING = (
    *_each(
        STREAM_WRITER,
        "start toTable",
        "Holds a standby's query until the grant; a leader's roots are claimed before Spark reads them.",
    ),
    Patch(
        f"{STREAM_WRITER}.foreachBatch", "The user's function passes the gate, and counts as user code while it runs."
    ),
    Patch(
        f"{STREAM_WRITER}.foreach", "Its writers run on executors, where no gate holds them: the driver counts as busy."
    ),
    *_each(QUERY_MANAGER, "active get", "The answer waits until every declared query has started."),
    Patch(
        f"{QUERY_MANAGER}.awaitAnyTermination",
        "Waits for the grant first; a query that met a late write of the previous leader is restarted, not reported.",
    ),
    Patch(
        f"{LISTENER}.onQueryStarted",
        "A start waits for this callback, so questions in it must not wait for that start.",
    ),
    *_each(
        READER,
        " ".join(READS),
        "Remembers the frame: a standby is stale once the files that its script has read in batch have changed.",
    ),
    *_each(STREAM_READER, " ".join(READS), "Remembers the frame, whose inputs a rehearsal must not report as changed."),
    Patch(f"{READER}.table", "A memory sink's view exists from the grant on; a statement that needs it waits."),
    Patch(f"{SESSION}.table", "A memory sink's view exists from the grant on; a statement that needs it waits."),
    Patch(f"{CATALOG}.tableExists", "A memory sink's view exists from the grant on; the answer waits for it."),
    Patch(
        f"{SESSION}.sql",
        "A statement with side effects waits for the grant, and one that reads a memory sink's view for that view.",
    ),
)

_SESSIONS = (
    *_each(
        BUILDER, "getOrCreate create", "Checks that the new session has the fence's settings; refuses Spark Connect."
    ),
    Patch(
        f"{BUILDER}._validate_startup_urls",
        "Refuses a remote session with a reason, before PySpark reports a conflict.",
    ),
    Patch(f"{CONTEXT}.stop", "Notes which queries run: Spark reports those as failed by the stop."),
    Patch(
        f"{CONTEXT}._do_init", "Has Spark start a program of ours for workers, which hands over to a spare interpreter."
    ),
    Patch(f"{CONTEXT}._initialize_context", "Puts the fence and the workers' daemon into the context's configuration."),
    Patch(
        "pyspark.core.context:launch_gateway",
        "Adds the fence to the JVM's class path and attaches it before the script runs.",
    ),
    Patch(
        "pyspark.java_gateway:Popen", "The JVM dies with its driver, and inherits the descriptor of the proof of life."
    ),
    Patch("pyspark.sql.connect.session:SparkSession.__init__", "Refuses Spark Connect, whose driver runs elsewhere."),
)

_WRITERS = (
    *_each(
        "pyspark.sql.readwriter:DataFrameWriter",
        "save saveAsTable insertInto parquet csv json orc text xml jdbc",
        _GATED,
    ),
    *_each(
        "pyspark.sql.readwriter:DataFrameWriterV2",
        "create replace createOrReplace append overwrite overwritePartitions",
        _GATED,
    ),
    *_each("pyspark.sql.merge:MergeIntoWriter", "merge", _GATED),
    *_each(
        CATALOG,
        "createTable createExternalTable createDatabase dropTable dropView dropDatabase truncateTable analyzeTable"
        " recoverPartitions",
        "Changes a catalog that others see: waits for the grant.",
    ),
    *_each(
        "pyspark.core.rdd:RDD",
        "saveAsTextFile saveAsPickleFile saveAsHadoopFile saveAsNewAPIHadoopFile saveAsHadoopDataset"
        " saveAsNewAPIHadoopDataset saveAsSequenceFile foreach foreachPartition",
        _GATED,
    ),
    *_each(FRAME, "foreach foreachPartition", _GATED),
    *_each("pyspark.ml.util:MLWriter", "save", _GATED),
    *_each("pyspark.ml.util:JavaMLWriter", "save", _GATED),
    *_each("pyspark.mllib.util:Saveable", "save", _GATED),
    *_each("pyspark.mllib.util:JavaSaveable", "save", _GATED),
    *_each("pyspark.mllib.classification:LogisticRegressionModel", "save", _GATED),
    *_each("pyspark.mllib.classification:SVMModel", "save", _GATED),
    *_each("pyspark.mllib.classification:NaiveBayesModel", "save", _GATED),
    *_each("pyspark.mllib.clustering:KMeansModel", "save", _GATED),
    *_each("pyspark.mllib.regression:LinearRegressionModel", "save", _GATED),
    *_each("pyspark.mllib.regression:LassoModel", "save", _GATED),
    *_each("pyspark.mllib.regression:RidgeRegressionModel", "save", _GATED),
    *_each("pyspark.mllib.regression:IsotonicRegressionModel", "save", _GATED),
    Patch(
        "pyspark.streaming.context:StreamingContext.start",
        "DStreams are not rehearsed: their context starts at the grant.",
    ),
)

_REHEARSED = (
    *_each(FRAME, " ".join(CACHES), "What a rehearsed foreachBatch function caches is let go when its rehearsal ends."),
    Patch(f"{CATALOG}.cacheTable", "What a rehearsed foreachBatch function caches is let go when its rehearsal ends."),
)

_REHEARSED_CHANGES = tuple(
    Patch(target, "A rehearsed foreachBatch function that the grant has overtaken changes no session, nor the cache.")
    for target in SESSION_CHANGES
)

_REHEARSED_CHECKPOINTS = tuple(
    Patch(
        target, "A rehearsed foreachBatch function leaves nothing in a checkpoint directory: it is a local checkpoint."
    )
    for target in (f"{FRAME}.checkpoint", RDD_CHECKPOINT)
)

_ACCUMULATORS = (
    Patch("pyspark.accumulators:UpdateRequestHandler.handle", "Marks the thread that receives what tasks report."),
    Patch(
        "pyspark.accumulators:Accumulator.__iadd__",
        "Drops what a rehearsal's tasks report: accumulators count the job alone.",
    ),
)

_DELTA = "Delta Lake"

_DELTA_TABLES = (
    *_each(
        f"{DELTA}:DeltaTable",
        "delete update generate vacuum convertToDelta upgradeTableProtocol addFeatureSupport dropFeatureSupport"
        " restoreToVersion restoreToTimestamp clone cloneAtVersion cloneAtTimestamp",
        "Changes a table without a writer of Spark's: waits for the grant.",
        _DELTA,
        optional=True,
    ),
    *_each(
        DELTA_MERGE,
        "execute",
        "Changes a table without a writer of Spark's: waits for the grant.",
        _DELTA,
        optional=True,
    ),
    *_each(
        f"{DELTA}:DeltaOptimizeBuilder",
        "executeCompaction executeZOrderBy",
        "Changes a table without a writer of Spark's: waits for the grant.",
        _DELTA,
        optional=True,
    ),
    *_each(DELTA_BUILDER, "execute", "Waits for the grant, unless the table exists and stays as it is.", _DELTA),
)

_PYTHON = (
    Patch(
        "threading:Thread.start",
        "A thread that a rehearsed foreachBatch function starts is part of that rehearsal.",
        "Python",
    ),
    Patch(
        "concurrent.futures.thread:ThreadPoolExecutor.submit",
        "What a rehearsed foreachBatch function gives to a pool is part of that rehearsal.",
        "Python",
    ),
    Patch("os:_exit", "Tells the supervisor how the script ended before the process is gone.", "Python", compiled=True),
    *(
        Patch(
            f"os:{name}",
            "Refuses that the script replaces its process by another program, which would run without gate and fence.",
            "Python",
            compiled=True,
        )
        for name in ("execv", "execve")
    ),
    Patch(
        "threading:excepthook",
        "Remembers an error of understudy's that ended a thread of the script: the script did not end well.",
        "Python",
        compiled=True,
    ),
)

PATCHES: tuple[Patch, ...] = (
    *_STREAMING,
    *_SESSIONS,
    *_WRITERS,
    *_REHEARSED,
    *_REHEARSED_CHANGES,
    *_REHEARSED_CHECKPOINTS,
    *_ACCUMULATORS,
    *_DELTA_TABLES,
    *_PYTHON,
)
