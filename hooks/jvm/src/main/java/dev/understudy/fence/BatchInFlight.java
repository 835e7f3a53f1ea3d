package dev.understudy.fence;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.FileStatus;

/**
 * Which batch of a root is in flight: from its offsets to its commit. A batch whose sink asks no
 * gate keeps the driver busy. Its tasks write even while the gate is closed, so the driver is
 * killed at the kill deadline and never parked.
 */
final class BatchInFlight {
  static final long NONE = -1;

  /**
   * Below {@link #NONE}: unknown until a look at the files. Each time it is another number, so that
   * a look that began before does not answer for what came after.
   */
  private static final AtomicLong UNKNOWN = new AtomicLong(NONE);

  /**
   * Finds the predecessor's batch, or {@link #NONE}: two lists, for which a takeover does not wait.
   */
  interface Search {
    long pending() throws IOException;
  }

  private final Search search;

  /** Without a lock: a claim may be waiting for the network. */
  private final AtomicLong batch = new AtomicLong(NONE);

  /** Null while the sink is gated. Guarded by {@code this}, like what follows. */
  private ActivityPage page;

  private boolean always;
  private boolean counted;

  BatchInFlight(Search search) {
    this.search = search;
  }

  /**
   * From now on this root's batches count in {@code page}; with {@code always} it counts between
   * them as well.
   */
  void ungated(ActivityPage activity, boolean evenBetween) {
    synchronized (this) {
      page = activity;
      always |= evenBetween;
    }
    count();
    look();
  }

  /**
   * The root was claimed: a predecessor may have left a batch, which runs again without its offsets
   * being written. A batch of ours goes on.
   */
  void unknown() {
    long fresh = UNKNOWN.decrementAndGet();
    batch.updateAndGet(known -> known > NONE ? known : fresh);
    count();
    look();
  }

  /**
   * An entry of the offsets or commits was sent and not confirmed, or exists: what stands there
   * decides.
   */
  void unclear() {
    batch.set(UNKNOWN.decrementAndGet());
    count();
    look();
  }

  /**
   * Returns the number of a batch from the name of its log entry; {@link #NONE} for any other name.
   */
  static long number(String name) {
    try {
      return Long.parseLong(name);
    } catch (NumberFormatException e) {
      return NONE;
    }
  }

  /** The highest number among the entries of a log; {@link #NONE} if it has none. */
  static long highest(FileStatus[] entries) {
    long highest = NONE;
    for (FileStatus entry : entries) {
      highest = Math.max(highest, number(entry.getPath().getName()));
    }
    return highest;
  }

  void began(long number) {
    batch.set(number);
    count();
  }

  /** The batch ended, or its offsets were never published. */
  void ended(long number) {
    // below it: the predecessor's, which was run again before any other
    batch.updateAndGet(known -> known == number || known < NONE ? NONE : known);
    count();
  }

  /** No query of this root runs any more, with or without its last batch. */
  synchronized void over() {
    batch.set(NONE);
    always = false;
    count();
  }

  /** The batch in flight, or {@link #NONE}; looks for it if that is not known. */
  long get() throws IOException {
    for (long known = batch.get(); known < NONE; known = batch.get()) {
      batch.compareAndSet(known, search.pending());
      count();
    }
    return batch.get();
  }

  private synchronized void count() {
    boolean busy = page != null && (always || batch.get() != NONE);
    if (busy != counted) {
      page.add(busy ? 1 : -1);
      counted = busy;
    }
  }

  /**
   * An idle query after a takeover may be parked, so a thread looks; the query does not wait for
   * it.
   */
  private synchronized void look() {
    if (page == null || always || batch.get() >= NONE) {
      return;
    }
    Thread looking =
        new Thread(
            () -> {
              try {
                get();
              } catch (IOException e) {
                return; // unreadable files count as a batch in flight, until a batch of ours ends
              }
            },
            "understudy-in-flight");
    looking.setDaemon(true);
    looking.start();
  }
}
