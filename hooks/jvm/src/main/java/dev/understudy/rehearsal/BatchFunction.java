package dev.understudy.rehearsal;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** A {@code foreachBatch} function of the user's that may be rehearsed; implemented in Python. */
public interface BatchFunction {
  /**
   * Calls the user's function in a rehearsal. Raises nothing that the function raises.
   *
   * @param batch in the rehearsal's own session
   * @param writes where the function's writes go
   * @return whether it has run to its end
   */
  boolean call(Dataset<Row> batch, long number, RehearsedWrites writes);
}
