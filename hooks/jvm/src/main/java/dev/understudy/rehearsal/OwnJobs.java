package dev.understudy.rehearsal;

import java.util.UUID;
import org.apache.spark.SparkContext;

/**
 * Spark jobs that a rehearsal runs outside its query, in a job group of their own, so that a
 * takeover can cancel them.
 */
final class OwnJobs {
  private final SparkContext context;
  private final String group = "understudy-" + UUID.randomUUID();

  OwnJobs(SparkContext context) {
    this.context = context;
  }

  /** Runs it in the calling thread. What it throws, cancelled or not, is thrown on. */
  void run(String description, Runnable work) {
    context.setJobGroup(group, description, true);
    try {
      work.run();
    } finally {
      RehearsalSession.clearInherited(context);
    }
  }

  /** Cancels the jobs that run, and every one to come; waits for nothing. */
  void cancel() {
    context.cancelJobGroupAndFutureJobs(group);
  }
}
