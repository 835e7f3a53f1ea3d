package dev.understudy.rehearsal;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.UserProvided;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileEntry;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The file source of a query of the user's, which remembers what rehearsals have parsed of its log.
 *
 * <p>Spark's source parses the whole log when it is made, which happens at the grant and takes
 * longer with every file that was ever read. This one makes Spark's source with an empty log, and
 * then gives it its real log and does what Spark's constructor does with it.
 *
 * <p>Equal to the source that it was made from, as a case class is.
 */
public final class RememberedSource extends DataSource {
  private static final long serialVersionUID = 1L;
  private static final String LOG = "metadataLog";
  private static final String NEWEST = "metadataLogCurrentOffset";

  /** What Spark has found out about a source, which costs requests. */
  static final List<String> LAZY =
      List.of("sourceInfo", "providingClass", "streamingSourceIdentifyingName", "bitmap$0");

  /** By the log's directory below {@code sources}: one for each place of the plan. */
  private transient Map<String, ParsedLog> parsed = new ConcurrentHashMap<>();

  /** As {@link DataSource}'s, and public for {@link SparkInternals#copy}. */
  public RememberedSource(
      SparkSession session,
      String className,
      Seq<String> paths,
      Option<StructType> schema,
      Seq<String> partitioning,
      Option<BucketSpec> buckets,
      scala.collection.immutable.Map<String, String> options,
      Option<CatalogTable> table,
      Option<UserProvided> name) {
    super(session, className, paths, schema, partitioning, buckets, options, table, name);
  }

  /** From now on the file sources of {@code plan} remember; the others stay as they are. */
  static void in(LogicalPlan plan) {
    if (plan instanceof StreamingRelation leaf
        && !(leaf.dataSource() instanceof RememberedSource)
        && FileFormat.class.isAssignableFrom(leaf.dataSource().providingClass())
        && SparkInternals.has(FileStreamSource.class, LOG)
        && SparkInternals.has(FileStreamSource.class, NEWEST)) {
      SparkInternals.set(leaf, "dataSource", of(leaf.dataSource()));
    }
    CollectionConverters.asJava(plan.children()).forEach(RememberedSource::in);
  }

  private static RememberedSource of(DataSource source) {
    RememberedSource made = SparkInternals.copy(source, RememberedSource.class, Map.of());
    LAZY.forEach(each -> SparkInternals.set(made, each, SparkInternals.get(source, each)));
    return made;
  }

  /** Both know what either has parsed. */
  void shareWith(DataSource copy) {
    if (copy instanceof RememberedSource other) {
      other.parsed = parsed;
    }
  }

  @Override
  public Source createSource(String metadataPath) {
    FileStreamSource source = withoutLog();
    if (source == null) {
      return super.createSource(metadataPath);
    }
    ParsedLog known =
        parsed.computeIfAbsent(new Path(metadataPath).getName(), name -> new ParsedLog());
    RememberedSourceLog log = new RememberedSourceLog(sparkSession(), metadataPath, known);
    Option<Tuple2<Object, FileEntry[]>> latest = log.getLatest();
    SparkInternals.set(source, LOG, log);
    SparkInternals.set(source, NEWEST, latest.isEmpty() ? -1L : (long) latest.get()._1());
    for (FileEntry each : log.restore()) {
      source.seenFiles().add(each.sparkPath(), each.timestamp());
    }
    source.seenFiles().purge();
    return source;
  }

  /** Null where no directory can be made here for an empty log, which Spark does not need. */
  private FileStreamSource withoutLog() {
    java.nio.file.Path empty;
    try {
      empty = Files.createTempDirectory("understudy-no-log");
    } catch (IOException e) {
      return null;
    }
    try {
      return (FileStreamSource) super.createSource(empty.toUri().toString());
    } finally {
      empty.toFile().delete(); // if it stays, it is small
    }
  }
}
