package dev.understudy.fence;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/**
 * Queries whose sinks ask no gate, because tasks write to them. Called from the driver's Python,
 * which knows where queries write.
 */
public final class UngatedSinks {
  private UngatedSinks() {}

  /**
   * From now on a driver with a batch in flight of the query with the checkpoint {@code root} is
   * busy, and never parked, until the query is forgotten.
   *
   * @param always busy also between batches: for queries that write their offsets when a batch has
   *     ended
   */
  public static void count(String root, Configuration conf, boolean always) throws IOException {
    AttachedSession.require("count", root).countBatches(root, conf, always);
  }
}
