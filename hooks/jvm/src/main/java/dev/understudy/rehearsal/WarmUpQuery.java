package dev.understudy.rehearsal;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.window;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * A query of ours, for a standby that knows none of the script's: what it runs has Spark's
 * streaming engine, its state store and a file sink loaded and compiled when the script goes on.
 *
 * <p>It reads rows that are made up and writes below scratch. What is special to the script's own
 * queries, their sources and their checkpoints above all, is not rehearsed by it.
 */
public final class WarmUpQuery {
  private WarmUpQuery() {}

  /**
   * Prepares rehearsals of it; runs nothing yet.
   *
   * @param session of the script; a rehearsal runs in a clone of it
   * @param sqlConf all of {@code spark.conf.getAll}
   * @param scratchDir a directory for this rehearsal alone
   */
  public static Rehearsal rehearsal(
      SparkSession session, Map<String, String> sqlConf, String scratchDir) {
    Dataset<Row> rows = session.readStream().format("rate").load();
    Dataset<Row> counted =
        rows.withWatermark("timestamp", "1 minute")
            .groupBy(window(col("timestamp"), "1 minute"), col("value").mod(lit(10)).as("part"))
            .agg(count(lit(1)).as("rows"));
    Dataset<Row> flat = counted.select(col("window.start").as("since"), col("part"), col("rows"));
    DataStreamWriter<Row> writer = flat.writeStream().format("parquet").outputMode("append");
    // As little work as can be: it is there to be compiled, and other replicas have work to do.
    Map<String, String> settings = new HashMap<>(sqlConf);
    settings.put("spark.sql.shuffle.partitions", "2");
    return Rehearsal.of(writer, null, null, settings, null, scratchDir, "synthetic");
  }
}
