package dev.understudy.rehearsal;

import java.io.IOException;
import java.util.stream.IntStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;

/**
 * What a rehearsal does with a batch of {@code foreachBatch}.
 *
 * <p>The user's function may do anything, so it is called only where the user says so, with its
 * writes redirected. Without it, and where it does not come to its end, the batch is written to
 * scratch as parquet, and merged where the session has Delta. Rows that parquet does not hold are
 * computed and dropped.
 */
final class RehearsedBatch implements VoidFunction2<Dataset<Row>, Long> {
  private final transient BatchFunction function;
  private final transient SparkSession script;
  private final transient Path scratch;
  private final transient DeltaScratch delta;
  private final transient FunctionLife life;
  private transient volatile RehearsedWrites current;

  /**
   * @param function the user's, if it is to be rehearsed; else null
   * @param script the script's session
   * @param scratch of this round
   * @param life of functions in this query's rehearsals
   */
  RehearsedBatch(
      BatchFunction function,
      SparkSession script,
      Path scratch,
      DeltaScratch delta,
      FunctionLife life) {
    this.function = function;
    this.script = script;
    this.scratch = scratch;
    this.delta = delta;
    this.life = life;
  }

  @Override
  public void call(Dataset<Row> batch, Long number) throws IOException {
    if (function == null) {
      write(batch);
      return;
    }
    SparkSession session = (SparkSession) batch.sparkSession();
    RehearsedWrites writes = new RehearsedWrites(session, scratch, delta, life);
    current = writes;
    if (life.cancelled().getAsBoolean()) {
      return;
    }
    boolean ran;
    life.jobs().enter();
    writes.enter(script, false); // also for what passes none of Python's writers
    try {
      ran = function.call(batch, number, writes);
    } finally {
      writes.leave();
      writes.end();
      life.jobs().leave();
      // what the function has cached of it, and not let go because it was ended
      session
          .sharedState()
          .cacheManager()
          .uncacheQuery((org.apache.spark.sql.classic.Dataset<?>) batch, true);
    }
    if (!ran) {
      writes.unredirected(() -> write(batch));
    }
  }

  /** The rehearsal was cancelled. */
  void cancel() {
    RehearsedWrites writes = current;
    if (writes != null) {
      writes.cancel();
    }
  }

  private void write(Dataset<Row> batch) throws IOException {
    String target = new Path(scratch, "batches").toString();
    try {
      // A frame may have two columns of one name; files may not.
      String[] names =
          IntStream.range(0, batch.columns().length).mapToObj(i -> "c" + i).toArray(String[]::new);
      batch.toDF(names).write().mode("append").parquet(target);
    } catch (Exception e) { // Spark's own, checked ones among them, which Scala does not declare
      if (!(e instanceof AnalysisException)) {
        throw e;
      }
      // A type that parquet does not hold. Of intervals, the sink named noop holds none, either.
      ((org.apache.spark.sql.classic.Dataset<Row>) batch).queryExecution().toRdd().count();
      return;
    }
    // not the batch: it would be computed again
    delta.merge(batch.sparkSession().read().parquet(target));
  }
}
