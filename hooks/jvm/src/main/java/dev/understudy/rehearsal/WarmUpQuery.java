package dev.understudy.rehearsal;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.window;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CancellationException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * A query of ours, for a standby that knows none of the script's: what it runs has Spark's
 * streaming engine, its state store, files as a source and a sink loaded and compiled when the
 * script goes on.
 *
 * <p>A script that is held before its first query is about to write something. So a statement goes
 * first in every round, which writes the files that the query reads. All of it is below scratch.
 * What is special to the script's own queries, their sources and their checkpoints above all, is
 * not rehearsed by it.
 */
public final class WarmUpQuery implements AutoCloseable {
  private static final String ROWS =
      "SELECT id, CAST(id AS STRING) AS name, current_timestamp() AS at FROM range(4)";

  private final SparkSession session;
  private final Path files;
  private final Rehearsal query;
  private final OwnJobs jobs;
  private volatile boolean ended;

  private WarmUpQuery(SparkSession session, Path files, Rehearsal query) {
    this.session = session;
    this.files = files;
    this.query = query;
    this.jobs = new OwnJobs(session.sparkContext());
  }

  /**
   * Prepares rounds of it; runs nothing yet.
   *
   * @param user session of the script; rounds run in clones of it
   * @param scratchDir where it may write; not there yet
   * @throws IOException where scratch cannot be written to
   */
  public static WarmUpQuery of(SparkSession user, String scratchDir) throws IOException {
    SparkSession session = RehearsalSession.clone(user, Map.of());
    // As little work as can be: it is there to be compiled, and other replicas have work to do.
    session.sessionState().conf().setConfString("spark.sql.shuffle.partitions", "2");
    Path files = new Path(scratchDir + ".files");
    files.getFileSystem(session.sessionState().newHadoopConf()).mkdirs(files);
    Dataset<Row> rows =
        session.readStream().schema("id long, name string, at timestamp").json(files.toString());
    Dataset<Row> counted =
        rows.withWatermark("at", "1 minute")
            .groupBy(window(col("at"), "1 minute"), col("name"))
            .agg(count(lit(1)).as("rows"));
    Dataset<Row> flat = counted.select(col("window.start").as("since"), col("name"), col("rows"));
    DataStreamWriter<Row> writer = flat.writeStream().format("parquet").outputMode("append");
    return new WarmUpQuery(
        session, files, Rehearsal.of(writer, null, null, Map.of(), null, scratchDir, "live"));
  }

  /** A statement and a run of the query. Throws what they throw, and when it was closed. */
  public synchronized void round() {
    if (ended) {
      throw new CancellationException("the warm-up has ended");
    }
    jobs.run(
        "a standby warms up",
        () -> session.sql(ROWS).write().mode(SaveMode.Overwrite).json(files.toString()));
    query.round();
  }

  /**
   * Breaks off what runs, waits for that, and removes what was written.
   *
   * @throws IOException where it could not be removed
   */
  @Override
  public void close() throws IOException {
    ended = true;
    jobs.cancel();
    query.close();
    synchronized (this) {
      files.getFileSystem(session.sessionState().newHadoopConf()).delete(files, true);
    }
  }
}
