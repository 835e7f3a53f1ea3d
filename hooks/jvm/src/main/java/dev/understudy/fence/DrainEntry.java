package dev.understudy.fence;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/**
 * The entry of a checkpoint's offsets that drains its query: the same offsets as the last batch,
 * and the end of time as the watermark.
 *
 * <p>A query that starts from it runs one batch without input, and in it every window and session
 * closes, unmatched rows of outer joins come out, and event-time timers fire (FLIP-34's TERMINATE).
 * Written between two batches, while the query does not run. Not guaranteed: that processing-time
 * timers fire.
 */
final class DrainEntry {
  /** 9999-12-31T23:59:59Z, the last second that Spark can show. */
  static final long END_OF_TIME_MS = 253_402_300_799_000L;

  private static final String WATERMARK = "batchWatermarkMs";

  private final String root;
  private final Configuration conf;
  private final FencedCheckpointFileManager files;
  private final Path offsets;
  private final Path commits;

  DrainEntry(String root, Configuration conf) throws IOException {
    this.root = root;
    this.conf = conf;
    offsets = new Path(root, CommittedBatches.OFFSETS);
    commits = new Path(root, CommittedBatches.COMMITS);
    files = new FencedCheckpointFileManager(offsets, conf);
  }

  /** Returns the batch of the entry if it is the last one; else {@link BatchInFlight#NONE}. */
  long find() throws IOException {
    long last = highest(offsets);
    return last != BatchInFlight.NONE && drains(read(last)) ? last : BatchInFlight.NONE;
  }

  /** See {@link Fence#drain}. */
  long appendOnce() throws IOException {
    long batch = find();
    if (batch == BatchInFlight.NONE && (batch = next()) != BatchInFlight.NONE) {
      AttachedSession.require("drain", root).drainWith(root, conf, batch);
      append(batch);
    }
    return batch;
  }

  /**
   * Returns the batch that an entry appended now has; {@link BatchInFlight#NONE} for a query that
   * has never run a batch.
   */
  private long next() throws IOException {
    long last = highest(offsets);
    if (last != highest(commits)) {
      throw new IOException(offsets.getParent() + ": batch " + last + " is not committed");
    }
    return last == BatchInFlight.NONE ? BatchInFlight.NONE : last + 1;
  }

  private void append(long batch) throws IOException {
    String drained = drained(read(batch - 1));
    CancellableFSDataOutputStream out =
        files.createAtomic(new Path(offsets, Long.toString(batch)), false);
    try {
      out.write(drained.getBytes(StandardCharsets.UTF_8));
      out.close();
    } catch (IOException | RuntimeException e) {
      out.cancel();
      throw e;
    }
  }

  /** The entry that follows {@code text}, an entry as Spark has written it. */
  static String drained(String text) throws IOException {
    String[] lines = text.split("\n", 3);
    ObjectNode metadata = metadata(text);
    metadata.put(WATERMARK, END_OF_TIME_MS);
    return lines[0] + "\n" + metadata + (lines.length > 2 ? "\n" + lines[2] : "");
  }

  static boolean drains(String text) throws IOException {
    return metadata(text).path(WATERMARK).asLong() == END_OF_TIME_MS;
  }

  private static ObjectNode metadata(String text) throws IOException {
    String[] lines = text.split("\n", 3);
    try {
      JsonNode metadata = lines.length < 2 ? null : Claim.JSON.readTree(lines[1]);
      if (metadata instanceof ObjectNode known && known.path(WATERMARK).isIntegralNumber()) {
        return known;
      }
    } catch (JsonProcessingException e) {
      throw new IOException("an entry of the offsets is not as Spark writes it: " + text, e);
    }
    throw new IOException("an entry of the offsets has no " + WATERMARK + ": " + text);
  }

  private String read(long batch) throws IOException {
    try (InputStream in = files.open(new Path(offsets, Long.toString(batch)))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private long highest(Path log) {
    return BatchInFlight.highest(files.list(log, each -> true));
  }
}
