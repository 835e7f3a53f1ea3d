package dev.understudy.rehearsal;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.streaming.StreamingSourceIdentifyingName;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Rewrites the streaming leaves of a plan so that no source is acknowledged, cleaned or drained.
 *
 * <p>File sources lose {@code cleanSource}; Kafka is read in the logged range (its offsets are
 * never committed by Spark); everything else becomes {@link GeneratedRows}. Output attributes keep
 * their ids, so the rest of the plan, and the code generated for it, stays what the real query has.
 */
final class Sources {
  /** More input than this is not read again just to warm up. */
  static final long MAX_BYTES = 64L << 20;

  private static final int MAX_FILES = 1000;

  /**
   * Messages have no size before they are read; this many of 1 KB are somewhat more than {@link
   * #MAX_BYTES}.
   */
  private static final long MAX_MESSAGES = 100_000;

  private static final String PYTHON =
      "org.apache.spark.sql.execution.datasources.v2.python.Python";

  private static final int KAFKA_ROWS = 1000;
  private static final int GENERATED_ROWS = 500;

  /** Sources in Python that make their rows up: the driver's {@code python_rows} has them. */
  private static final String OURS = "understudy-rows-";

  /** What is read: the real rows, made-up ones, or none at all. */
  enum Rows {
    REAL,
    GENERATED,
    NONE
  }

  /**
   * @param generated whether at least one source was replaced
   * @param bytes of files that are read again
   */
  record Rewritten(LogicalPlan plan, boolean generated, long bytes) {}

  private final SparkSession session;
  private final ReplayableBatch past;
  private final Rows rows;
  private final Configuration conf;
  private final Map<LogicalPlan, LogicalPlan> done = new HashMap<>();
  private int distinct;
  private boolean generated;
  private long bytes;

  /**
   * @param past the batch to be run again, or null on a throw-away checkpoint
   */
  private Sources(SparkSession session, ReplayableBatch past, Rows rows) {
    this.session = session;
    this.past = past;
    this.rows = rows;
    this.conf = session.sessionState().newHadoopConf();
  }

  static Rewritten rewrite(
      LogicalPlan analyzed, SparkSession session, ReplayableBatch past, Rows rows) {
    Sources sources = new Sources(session, past, rows);
    LogicalPlan plan = UncountedFunctions.in(sources.descend(analyzed));
    // Analysis is over; a second run over rebuilt parents could only change what the real query
    // will execute.
    plan.setAnalyzed();
    return new Rewritten(plan, sources.generated, sources.bytes);
  }

  private LogicalPlan descend(LogicalPlan plan) {
    if (plan instanceof StreamingRelation || plan instanceof StreamingRelationV2) {
      // Spark reads equal leaves once and counts them once for sources/<n>: equal leaves must stay
      // equal.
      LogicalPlan known = done.get(plan);
      if (known == null) {
        known =
            plan instanceof StreamingRelation v1
                ? rewrite(v1)
                : rewrite((StreamingRelationV2) plan);
        done.put(plan, known);
      }
      return known;
    }
    if (!plan.isStreaming()) {
      return plan;
    }
    List<LogicalPlan> children =
        CollectionConverters.asJava(plan.children()).stream().map(this::descend).toList();
    return plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  private LogicalPlan rewrite(StreamingRelation leaf) {
    DataSource source = leaf.dataSource();
    String log = logName(leaf.sourceIdentifyingName());
    boolean files = FileFormat.class.isAssignableFrom(source.providingClass());
    if (rows != Rows.REAL || !files || !readable(log)) {
      return generated(leaf.output(), leaf.sourceIdentifyingName());
    }
    Map<String, String> options =
        without(CollectionConverters.asJava(source.options()), "cleanSource", "sourceArchiveDir");
    options.put("cleanSource", "off");
    if (past == null) {
      options = without(options, "maxFilesPerTrigger", "maxBytesPerTrigger");
      options.put("maxFilesPerTrigger", "1");
    }
    return SparkInternals.copy(leaf, Map.of("dataSource", inClone(source, options)));
  }

  /**
   * The same source, reading through the clone. The schema Spark found when the script called
   * {@code load()} is carried over: looking for it again would list every input directory once per
   * round, which the real start does not.
   */
  private DataSource inClone(DataSource source, Map<String, String> options) {
    StructType schema = source.sourceInfo().schema();
    DataSource copy =
        SparkInternals.copy(
            source,
            Map.of(
                "sparkSession", session,
                "options",
                    scala.collection.immutable.Map$.MODULE$.from(
                        CollectionConverters.asScala(options)),
                "userSpecifiedSchema", Option.apply(schema)));
    for (String lazy : RememberedSource.LAZY) {
      SparkInternals.set(copy, lazy, SparkInternals.get(source, lazy));
    }
    if (source instanceof RememberedSource remembered) {
      remembered.shareWith(copy);
    }
    return copy;
  }

  /** Whether any of a plan's streams has its source in Python. */
  static boolean inPython(LogicalPlan plan) {
    return plan instanceof StreamingRelationV2 leaf
        ? leaf.table().getClass().getName().startsWith(PYTHON)
        : CollectionConverters.asJava(plan.children()).stream().anyMatch(Sources::inPython);
  }

  private LogicalPlan rewrite(StreamingRelationV2 leaf) {
    if (inPython(leaf) && leaf.sourceName().startsWith(OURS)) {
      return leaf;
    }
    String log = logName(leaf.sourceIdentifyingName());
    Seq<Attribute> output = attributes(leaf.output());
    boolean kafka = leaf.table().getClass().getName().startsWith("org.apache.spark.sql.kafka010.");
    if (rows != Rows.REAL || !kafka || messages(log) > MAX_MESSAGES) {
      return generated(output, leaf.sourceIdentifyingName());
    }
    if (past != null) {
      return leaf;
    }
    Map<String, String> options =
        without(
            leaf.extraOptions().asCaseSensitiveMap(),
            "maxOffsetsPerTrigger",
            "minOffsetsPerTrigger");
    options.put("maxOffsetsPerTrigger", String.valueOf(KAFKA_ROWS));
    return SparkInternals.copy(leaf, Map.of("extraOptions", new CaseInsensitiveStringMap(options)));
  }

  private LogicalPlan generated(Seq<Attribute> output, StreamingSourceIdentifyingName name) {
    generated = true;
    StructType schema = new StructType();
    for (Attribute attribute : CollectionConverters.asJava(output)) {
      schema =
          schema.add(
              attribute.name(), attribute.dataType(), attribute.nullable(), attribute.metadata());
    }
    GeneratedRows table =
        new GeneratedRows(
            schema,
            rows == Rows.NONE ? 0 : GENERATED_ROWS,
            past == null ? 0 : past.watermarkMillis());
    return new StreamingRelationV2(
        Option.empty(),
        table.name(),
        table,
        new CaseInsensitiveStringMap(Map.of()),
        references(output),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        name);
  }

  /**
   * The directory of this source below {@code sources/}; to be asked once per distinct leaf, in the
   * plan's order.
   */
  private String logName(StreamingSourceIdentifyingName name) {
    Option<String> given = name.nameOpt();
    return given.isDefined() ? given.get() : String.valueOf(distinct++);
  }

  private long messages(String log) {
    return past == null
        ? 0
        : past.ranges().stream()
            .filter(range -> range.source().equals(log))
            .mapToLong(ReplayableBatch.Range::messages)
            .sum();
  }

  /**
   * Whether what a file source read in the batch is still there, all of it, and little enough to be
   * read again.
   */
  private boolean readable(String log) {
    if (past == null) {
      return true;
    }
    for (ReplayableBatch.Range range : past.ranges()) {
      long[] entries = range.source().equals(log) ? range.entries() : null;
      if (entries == null || entries[0] > entries[1]) {
        continue;
      }
      try {
        List<ReplayableBatch.InputFile> files = past.files(log, entries[0], entries[1]);
        if (files.size() > MAX_FILES) {
          // before any of them is asked for: in an object store each costs a request
          return false;
        }
        long bytes = 0;
        for (ReplayableBatch.InputFile file : files) {
          Path path = file.path();
          bytes += path.getFileSystem(conf).getFileStatus(path).getLen();
          if (bytes > MAX_BYTES) {
            return false;
          }
        }
        this.bytes += bytes;
      } catch (IOException e) {
        return false; // cleaned or archived by the leader: Spark would fail on it
      }
    }
    return true;
  }

  private static Map<String, String> without(Map<String, String> options, String... names) {
    Map<String, String> kept = new LinkedHashMap<>(options);
    Set<String> dropped = Set.of(names);
    kept.keySet().removeIf(key -> dropped.stream().anyMatch(key::equalsIgnoreCase));
    return kept;
  }

  @SuppressWarnings("unchecked")
  private static Seq<Attribute> attributes(Seq<?> output) {
    return (Seq<Attribute>) output;
  }

  @SuppressWarnings("unchecked")
  private static Seq<AttributeReference> references(Seq<?> output) {
    return (Seq<AttributeReference>) output;
  }
}
