package dev.understudy.fence;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * When each query of a takeover begins.
 *
 * <p>First batches that share the processors all end late, at about the same time. One after the
 * other they end as early as they can: the first ones with the processors to themselves, then as
 * many at a time as there are processors. For that, no query runs a second batch before all have
 * run their first. Where this JVM leaves processors idle, because first batches wait for a store,
 * for Python or for executors elsewhere, more begin.
 */
public final class StartPace {
  /** A first batch that takes longer is not waited for any more. */
  private static final long LONG_NANOS = TimeUnit.SECONDS.toNanos(2);

  /** Nothing is held back for longer. */
  private static final long LONGEST_NANOS = TimeUnit.SECONDS.toNanos(10);

  private static final long POLL_MILLIS = 5;

  /** What has just begun is not seen in the processors' use earlier. */
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  /** Of a processor: with so little used it counts as idle. No JVM that waits uses nothing. */
  private static final double NEXT_TO_NOTHING = 0.2;

  private final int processors;
  private final LongSupplier clock;
  private final LongSupplier processorTime;
  private final long madeAt;

  private final List<FirstBatch> underWay = new ArrayList<>();

  /** Roots of queries that have committed a batch. */
  private final Set<String> committed = new HashSet<>();

  /** Turns that were given and not used yet. */
  private int starting;

  private boolean anyOver;
  private boolean allBegan;
  private boolean allMayBegin;
  private boolean looks;
  private long lookedAt;
  private long used;

  /** How many more may begin, for what is idle. */
  private long spare;

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

  /** Whether so many queries are more than may begin at once. */
  boolean isNeededFor(int queries) {
    return queries > atOnce();
  }

  private int atOnce() {
    return processors / busyWithEach();
  }

  /**
   * Processors that a first batch keeps busy: Spark plans it and runs its tasks, and until one has
   * ended the JVM compiles what it has not run before.
   */
  private int busyWithEach() {
    return anyOver ? 1 : Math.min(2, processors);
  }

  /** Returns when one more may begin; {@link #begun} or {@link #failed} is called afterwards. */
  public void awaitTurn() throws InterruptedException {
    while (!turn()) {
      Thread.sleep(POLL_MILLIS);
    }
  }

  /** Queries wait for each other's start: it is no query's turn before another's any more. */
  synchronized void letAllBegin() {
    allMayBegin = true;
  }

  /** No more turns are waited for. */
  public synchronized void end() {
    allBegan = true;
  }

  /** A turn was used for this query. {@code root}: empty where no lasting checkpoint is. */
  public synchronized void begun(StreamingQuery query, String root) {
    starting--;
    underWay.add(new FirstBatch(query, root, clock.getAsLong()));
  }

  /** A turn was used, and no query began. */
  public synchronized void failed() {
    starting--;
  }

  synchronized void committed(String root) {
    committed.add(root);
  }

  /** Whether a batch of {@code root} may begin, or the first ones of others come before it. */
  synchronized boolean mayGoOn(String root) {
    return over() || !committed.contains(root);
  }

  /** Whether all first batches are over, or not waited for any more. */
  synchronized boolean over() {
    forgetWhatIsOver();
    return late() || (allBegan && starting == 0 && underWay.isEmpty());
  }

  /** Returns when all first batches are over, or not waited for any more. */
  public void awaitOver() throws InterruptedException {
    while (!over()) {
      Thread.sleep(POLL_MILLIS);
    }
  }

  synchronized boolean turn() {
    forgetWhatIsOver();
    if (starting + underWay.size() >= atOnce()) {
      look();
      if (spare <= 0 && !late() && !allMayBegin) {
        return false;
      }
      spare--;
    }
    starting++;
    return true;
  }

  private void forgetWhatIsOver() {
    anyOver |= underWay.removeIf(this::isOver);
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
    if (looks) {
      double idle = processors - (double) (uses - used) / (now - lookedAt);
      spare = (long) (idle + NEXT_TO_NOTHING) / busyWithEach();
    }
    looks = true;
    lookedAt = now;
    used = uses;
  }

  private static long processorTime() {
    OperatingSystemMXBean machine =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    return machine.getProcessCpuTime();
  }

  /** Whether it has ended or need not be waited for, or the query has found nothing to do. */
  private boolean isOver(FirstBatch batch) {
    return committed.contains(batch.root())
        || clock.getAsLong() - batch.since() >= LONG_NANOS
        || !batch.query().isActive()
        || batch.query().lastProgress() != null
        || batch.query().status().message().startsWith("Waiting for ");
  }

  /** The first batch of {@code query}, or what it does instead. */
  private record FirstBatch(StreamingQuery query, String root, long since) {}
}
