package dev.understudy.rehearsal;

import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkStageInfo;
import org.apache.spark.SparkStatusTracker;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.Option;
import scala.collection.mutable.HashSet;

/** What a query leaves in the JVM when it has ended, and Spark would clear away only later. */
final class StateStoreCleanup {
  private static final long PATIENCE_NANOS = 30_000_000_000L;

  private StateStoreCleanup() {}

  /**
   * What marks a provider as being maintained: the set, and the lock that guards it; in Spark 4.2,
   * and from 4.3 on.
   */
  private static final Map<String, String> MARKS =
      Map.of(
          "maintenancePartitions", "maintenanceThreadPoolLock",
          "snapshotPartitions", "snapshotPartitionsLock",
          "cleanupPartitions", "cleanupPartitionsLock");

  /**
   * Unloads the state stores of one run.
   *
   * <p>Spark does it in its maintenance thread, a minute later, after one more snapshot into a
   * checkpoint that is gone by then. Until then each holds its state in memory. A provider may only
   * be closed while maintenance does not work on it, so it is marked as taken first.
   */
  static void unloadStateStores(UUID run) throws InterruptedException {
    StateStore$ stores = StateStore$.MODULE$;
    List<String> marks =
        MARKS.keySet().stream().filter(name -> SparkInternals.has(stores, name)).sorted().toList();
    for (StateStoreProviderId id : LoadedStores.of(run).keySet()) {
      for (String mark : marks) {
        take(stores, mark, id);
      }
      try {
        Option<StateStoreProvider> provider = LoadedStores.remove(id);
        if (provider.isDefined()) {
          provider.get().close();
        }
      } finally {
        for (String mark : marks) {
          release(stores, mark, id);
        }
      }
    }
  }

  private static void take(StateStore$ stores, String mark, StateStoreProviderId id)
      throws InterruptedException {
    HashSet<StateStoreProviderId> marked = marked(stores, mark);
    Object lock = SparkInternals.get(stores, MARKS.get(mark));
    synchronized (lock) {
      while (marked.contains(id)) {
        lock.wait(1000);
      }
      marked.add(id);
    }
  }

  private static void release(StateStore$ stores, String mark, StateStoreProviderId id) {
    HashSet<StateStoreProviderId> marked = marked(stores, mark);
    Object lock = SparkInternals.get(stores, MARKS.get(mark));
    synchronized (lock) {
      marked.remove(id);
      lock.notifyAll();
    }
  }

  @SuppressWarnings("unchecked")
  private static HashSet<StateStoreProviderId> marked(StateStore$ stores, String mark) {
    return (HashSet<StateStoreProviderId>) SparkInternals.get(stores, mark);
  }

  /**
   * Waits until no task of a job group that was cut short runs any more: a task may not lose its
   * state store under its hands.
   *
   * @return false when one still runs after half a minute; its stores are then left to Spark's
   *     maintenance
   */
  static boolean tasksEnd(SparkContext context, String group) throws InterruptedException {
    SparkStatusTracker tracker = context.statusTracker();
    long until = System.nanoTime() + PATIENCE_NANOS;
    while (running(tracker, group)) {
      if (System.nanoTime() > until) {
        return false;
      }
      Thread.sleep(20);
    }
    return true;
  }

  private static boolean running(SparkStatusTracker tracker, String group) {
    for (int job : tracker.getJobIdsForGroup(group)) {
      var info = tracker.getJobInfo(job);
      if (info.isEmpty()) {
        continue;
      }
      for (int stage : info.get().stageIds()) {
        Option<SparkStageInfo> at = tracker.getStageInfo(stage);
        if (at.isDefined() && at.get().numActiveTasks() > 0) {
          return true;
        }
      }
    }
    return false;
  }
}
