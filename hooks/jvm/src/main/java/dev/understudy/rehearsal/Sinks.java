package dev.understudy.rehearsal;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.Trigger;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The writer of a rehearsal: the user's, with every place it writes to replaced.
 *
 * <p>File sinks and Delta tables keep format, options and partitioning and write below scratch.
 * {@code foreachBatch} becomes a {@link RehearsedBatch}. Every other sink becomes {@code noop}.
 */
final class Sinks {
  private static final Set<String> FILES = Set.of("parquet", "orc", "json", "csv", "text");

  /**
   * Options that name a place or a query of the user's, or switch to an execution the overlay does
   * not follow.
   */
  private static final Set<String> DROPPED =
      Set.of(
          "path",
          "checkpointlocation",
          "queryname",
          "asyncprogresstrackingenabled",
          "asyncprogresstrackingcheckpointintervalms");

  private Sinks() {}

  /**
   * @param user the writer the script called {@code start()} on; only read
   * @param path that it was given there, or null
   * @param data what to write, in the rehearsal's session
   * @param scratch of this round
   * @param batches in the place of a function of {@code foreachBatch}
   */
  static DataStreamWriter<Row> writer(
      DataStreamWriter<?> user,
      String path,
      org.apache.spark.sql.classic.Dataset<Row> data,
      String name,
      String checkpoint,
      Path scratch,
      DeltaScratch delta,
      VoidFunction2<Dataset<Row>, Long> batches)
      throws IOException {
    DataStreamWriter<Row> writer = data.writeStream();
    writer.outputMode((OutputMode) SparkInternals.get(user, "outputMode"));
    // As fast as possible with any trigger of the user's: an interval would only make the round
    // wait.
    writer.trigger(Trigger.ProcessingTime(0));
    SparkInternals.set(writer, "sinkName", SparkInternals.get(user, "sinkName"));
    String source = ((String) SparkInternals.get(user, "source")).toLowerCase(Locale.ROOT);
    if (source.equals("foreachbatch")) {
      writer.foreachBatch(batches);
    } else if (FILES.contains(source)) {
      redirect(writer, source, user, new Path(scratch, "sink"));
    } else if (source.equals("delta")) {
      follow(user, path, delta);
      Path table = delta.table(data.schema(), partitioning(user));
      if (table == null) {
        writer.format("noop");
      } else {
        redirect(writer, source, user, table);
      }
    } else {
      writer.format("noop");
    }
    return writer.queryName(name).option("checkpointLocation", checkpoint);
  }

  /** With the options by which Delta finds in its memory what the query will look for. */
  private static void follow(DataStreamWriter<?> user, String path, DeltaScratch delta) {
    String table = path;
    Map<String, String> kept = new HashMap<>();
    for (Map.Entry<String, String> option : options(user).entrySet()) {
      if (option.getKey().startsWith("fs.")) {
        kept.put(option.getKey(), option.getValue());
      } else if (table == null && option.getKey().equalsIgnoreCase("path")) {
        table = option.getValue();
      }
    }
    if (table != null) {
      delta.follow(table, kept);
    }
  }

  private static void redirect(
      DataStreamWriter<Row> writer, String source, DataStreamWriter<?> user, Path target) {
    writer.format(source);
    options(user)
        .forEach(
            (key, value) -> {
              if (!DROPPED.contains(key.toLowerCase(Locale.ROOT))) {
                writer.option(key, value);
              }
            });
    writer.option("path", target.toString());
    List<String> partitioning = partitioning(user);
    if (!partitioning.isEmpty()) {
      writer.partitionBy(partitioning.toArray(String[]::new));
    }
  }

  @SuppressWarnings("unchecked")
  private static List<String> partitioning(DataStreamWriter<?> user) {
    Option<Seq<String>> columns =
        (Option<Seq<String>>) SparkInternals.get(user, "partitioningColumns");
    return columns.isDefined() ? CollectionConverters.asJava(columns.get()) : List.of();
  }

  @SuppressWarnings("unchecked")
  private static Map<String, String> options(DataStreamWriter<?> user) {
    return CollectionConverters.asJava(
        ((CaseInsensitiveMap<String>) SparkInternals.get(user, "extraOptions")).originalMap());
  }
}
