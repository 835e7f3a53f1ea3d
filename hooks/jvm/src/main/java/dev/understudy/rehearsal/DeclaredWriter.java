package dev.understudy.rehearsal;

import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;

/** A writer as it was when the script called its {@code start()}. */
public final class DeclaredWriter {
  private DeclaredWriter() {}

  /**
   * A copy that later calls on the writer do not change: Spark's {@code option()} and its like
   * change the writer itself, and a script may use it for its next query.
   */
  public static DataStreamWriter<?> of(DataStreamWriter<?> writer) {
    DataStreamWriter<?> copy = ((Dataset<?>) SparkInternals.get(writer, "ds")).writeStream();
    SparkInternals.copyVariables(writer, copy);
    return copy;
  }
}
