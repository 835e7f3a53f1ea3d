package dev.understudy.fence;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * When each query of a takeover begins, where there are more than processors.
 *
 * <p>First batches that share the processors all end late, at about the same time. One after the
 * other they end as early as they can, and the last no later; for that, no query runs a second
 * batch before all have run their first. Where this JVM leaves a processor idle, because first
 * batches wait for a store, for Python or for executors elsewhere, one more begins.
 */
public final class StartPace {
  /** Nothing is held back for longer: a first batch may take minutes. */
  private static final long LONGEST_NANOS = TimeUnit.SECONDS.toNanos(10);

  private static final long POLL_MILLIS = 5;

  /** A gate that is revoked meanwhile must end the wait of a second batch. */
  private static final long HELD_MILLIS = 20;

  /** Several of the ticks in which Linux counts a process's time. */
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private final int processors;
  private final LongSupplier clock;
  private final LongSupplier processorTime;
  private final long madeAt;

  /**
   * Queries in their first batch, each with its root; empty for one without a lasting checkpoint.
   */
  private final Map<StreamingQuery, String> underWay = new HashMap<>();

  /** Roots of queries that have committed a batch. */
  private final Set<String> committed = new HashSet<>();

  /** Turns that were given and not used yet. */
  private int starting;

  private boolean allBegan;
  private boolean looks;
  private long lookedAt;
  private long used;
  private long idle;

  StartPace() {
    this(Runtime.getRuntime().availableProcessors(), System::nanoTime, StartPace::processorTime);
  }

  /** Both give nanoseconds. */
  StartPace(int processors, LongSupplier clock, LongSupplier processorTime) {
    this.processors = processors;
    this.clock = clock;
    this.processorTime = processorTime;
    this.madeAt = clock.getAsLong();
  }

  /** Returns when one more may begin; {@link #begun} is called for it afterwards. */
  public void awaitTurn() throws InterruptedException {
    while (!turn()) {
      Thread.sleep(POLL_MILLIS);
    }
  }

  /** No more turns are waited for. */
  public synchronized void end() {
    allBegan = true;
  }

  /** A turn was used for this query. */
  public synchronized void begun(StreamingQuery query, String root) {
    starting--;
    underWay.put(query, root);
  }

  /** A turn was used, and no query began. */
  public synchronized void failed() {
    starting--;
  }

  synchronized void committed(String root) {
    committed.add(root);
  }

  /** Whether a batch of {@code root} may begin; false after a short wait if others come first. */
  @SuppressWarnings("WaitNotInLoop") // the caller loops, and asks the gate each time
  synchronized boolean mayGoOn(String root) throws InterruptedException {
    underWay.entrySet().removeIf(each -> isOver(each.getKey(), each.getValue()));
    boolean over = allBegan && starting == 0 && underWay.isEmpty();
    if (over || late() || !committed.contains(root)) {
      return true;
    }
    wait(HELD_MILLIS);
    return false;
  }

  synchronized boolean turn() {
    underWay.entrySet().removeIf(each -> isOver(each.getKey(), each.getValue()));
    if (starting + underWay.size() >= processors) {
      look();
      if (idle <= 0 && !late()) {
        return false;
      }
      idle--;
    }
    starting++;
    return true;
  }

  private boolean late() {
    return clock.getAsLong() - madeAt >= LONGEST_NANOS;
  }

  /** Counts the processors that this process has left idle since the last look. */
  private void look() {
    long now = clock.getAsLong();
    if (looks && now - lookedAt < LOOK_NANOS) {
      return;
    }
    long uses = processorTime.getAsLong();
    idle = looks ? processors - Math.round((double) (uses - used) / (now - lookedAt)) : 0;
    looks = true;
    lookedAt = now;
    used = uses;
  }

  private static long processorTime() {
    OperatingSystemMXBean machine =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    return machine.getProcessCpuTime();
  }

  /** Whether its first batch has ended, or it has found that there is nothing to do. */
  private boolean isOver(StreamingQuery query, String root) {
    return committed.contains(root)
        || !query.isActive()
        || query.lastProgress() != null
        || query.status().message().startsWith("Waiting for ");
  }
}
