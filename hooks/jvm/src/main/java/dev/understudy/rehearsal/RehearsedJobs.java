package dev.understudy.rehearsal;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkContext;

/**
 * Spark jobs of a function of the user's in rehearsals, in whichever thread it starts them: a
 * takeover cancels them, because they would keep the job's own waiting for processors.
 *
 * <p>By a tag and not by the query's job group, which a function may replace, as scripts do that
 * name their jobs for Spark's page.
 */
final class RehearsedJobs {
  private static final String INTERRUPTS = "spark.job.interruptOnCancel";
  private static final long FIRST_LOOK_MILLIS = 10;
  private static final long LAST_LOOK_MILLIS = 1_000;

  private final SparkContext context;
  private final String tag;
  private final ThreadLocal<Boolean> interrupts = ThreadLocal.withInitial(() -> false);
  private final AtomicInteger threads = new AtomicInteger();
  private final AtomicBoolean cancels = new AtomicBoolean();

  RehearsedJobs(SparkContext context, String tag) {
    this.context = context;
    this.tag = tag;
  }

  /** From now on, until {@link #leave}, the calling thread's jobs are the function's. */
  void enter() {
    threads.incrementAndGet();
    context.addJobTag(tag);
    if (context.getLocalProperty(INTERRUPTS) == null) { // as in the query's own thread
      context.setLocalProperty(INTERRUPTS, "true");
      interrupts.set(true);
    }
  }

  void leave() {
    if (interrupts.get()) {
      context.setLocalProperty(INTERRUPTS, null);
    }
    interrupts.remove();
    context.removeJobTag(tag);
    threads.decrementAndGet();
  }

  /** Cancels the jobs that run, and those that the function still starts; waits for nothing. */
  void cancel() {
    if (threads.get() == 0 || !cancels.compareAndSet(false, true)) {
      return;
    }
    context.cancelJobsWithTag(tag);
    Thread thread = new Thread(this::cancelWhatFollows, tag + "-jobs");
    thread.setDaemon(true);
    thread.start();
  }

  /** Spark has no way to refuse jobs of a tag that are still to come. */
  private void cancelWhatFollows() {
    long pause = FIRST_LOOK_MILLIS;
    try {
      while (threads.get() > 0 && !context.isStopped()) {
        Thread.sleep(pause);
        context.cancelJobsWithTag(tag);
        pause = Math.min(2 * pause, LAST_LOOK_MILLIS);
      }
    } catch (InterruptedException | IllegalStateException e) {
      // the context was stopped meanwhile
    }
  }
}
