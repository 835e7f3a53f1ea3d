package dev.understudy.fence;

import java.util.Arrays;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSinkLog;
import org.apache.spark.sql.execution.streaming.sinks.SinkFileStatus;
import scala.runtime.BoxedUnit;

/**
 * The first batch of a query in a file sink that is new to it, when the query has run batches
 * before: a fork of a savepoint, or a script whose output was moved.
 *
 * <p>Spark compacts the sink's log every so many batches, reads all entries since the last time for
 * that, and fails for good where one is missing ({@code BATCH_METADATA_NOT_FOUND}). So the log gets
 * an empty entry for each of those batches first, which name no files. The last one is written
 * last, so a start that was cut short is completed by the next.
 *
 * <p>A log with files in it and a gap is left alone: it has lost entries, and Spark says so.
 */
final class SinkLogStart {
  /** Logs that were looked at. One is enough for each: from then on this process adds to it. */
  private static final Set<FileStreamSinkLog> SEEN =
      Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap<>()));

  private SinkLogStart() {}

  /** Before {@code batch} is written to the sink of {@code log}. */
  static void complete(FileStreamSinkLog log, long batch) {
    if (batch == 0 || !SEEN.add(log)) {
      return;
    }
    long[] there = log.listBatchesOnDisk();
    boolean begun = Arrays.stream(there).anyMatch(each -> each >= batch - 1);
    if (begun || !Arrays.stream(there).allMatch(each -> isEmpty(log, each))) {
      return;
    }
    int interval = log.compactInterval();
    long compacted = batch / interval * interval - 1;
    for (long each = Math.max(compacted, 0); each < batch; each++) {
      log.addNewBatchByStream(
          each,
          out -> {
            log.serialize(new SinkFileStatus[0], out);
            return BoxedUnit.UNIT;
          });
    }
  }

  private static boolean isEmpty(FileStreamSinkLog log, long batch) {
    scala.Option<SinkFileStatus[]> entry = log.get(batch);
    return entry.isDefined() && entry.get().length == 0;
  }
}
