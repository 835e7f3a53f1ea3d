package dev.understudy.rehearsal;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkStageInfo;
import org.apache.spark.SparkStatusTracker;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.Option;
import scala.collection.mutable.HashMap;
import scala.collection.mutable.HashSet;
import scala.jdk.javaapi.CollectionConverters;

/** What a query leaves in the JVM when it has ended, and Spark would clear away only later. */
final class Leftovers {
    private static final long PATIENCE_NANOS = 30_000_000_000L;

    private Leftovers() {}

    /**
     * Unloads the state stores of one run.
     *
     * <p>Spark does it in its maintenance thread, a minute later, after one more snapshot into a checkpoint that is gone by then. Until then
     * each holds its state in memory. A provider may only be closed while maintenance does not work on it, so it is marked as taken first.
     */
    static void unloadStateStores(UUID run) throws InterruptedException {
        StateStore$ stores = StateStore$.MODULE$;
        @SuppressWarnings("unchecked")
        var loaded = (HashMap<StateStoreProviderId, StateStoreProvider>) Reflect.call(stores, "loadedProviders");
        @SuppressWarnings("unchecked")
        var busy = (HashSet<StateStoreProviderId>) Reflect.call(stores, "maintenancePartitions");
        Object lock = Reflect.call(stores, "maintenanceThreadPoolLock");
        List<StateStoreProviderId> ours = new ArrayList<>();
        synchronized (loaded) {
            for (StateStoreProviderId id : CollectionConverters.asJava(loaded.keySet())) {
                if (id.queryRunId().equals(run)) {
                    ours.add(id);
                }
            }
        }
        for (StateStoreProviderId id : ours) {
            synchronized (lock) {
                while (busy.contains(id)) {
                    lock.wait(1000);
                }
                busy.add(id);
            }
            try {
                stores.removeFromLoadedProvidersAndClose(id, Option.empty());
            } finally {
                synchronized (lock) {
                    busy.remove(id);
                    lock.notifyAll();
                }
            }
        }
    }

    /** Waits until no task of a cancelled job group runs any more; a task may not lose its state store under its hands. */
    static void awaitTasks(SparkContext context, String group) throws InterruptedException {
        SparkStatusTracker tracker = context.statusTracker();
        long until = System.nanoTime() + PATIENCE_NANOS;
        while (System.nanoTime() < until && running(tracker, group)) {
            Thread.sleep(20);
        }
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
