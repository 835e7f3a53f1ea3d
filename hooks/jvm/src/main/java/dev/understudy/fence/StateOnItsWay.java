package dev.understudy.fence;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.util.UninterruptibleThread;

/**
 * State that is being handed over to a query, while the query reads its logs. Before it looks at
 * its state for the first time, which Spark does when it plans a batch, it waits.
 *
 * <p>Tasks do not wait: they hold what a hand-over needs. One that comes first loads its state
 * itself.
 */
public final class StateOnItsWay {
  private static final Map<String, CompletableFuture<?>> BY_ROOT = new ConcurrentHashMap<>();

  private StateOnItsWay() {}

  /** Hands over, in a thread of its own, to the query with this checkpoint. */
  public static void to(Path root, Runnable handOver) {
    String key = root.toString();
    CompletableFuture<Void> done = new CompletableFuture<>();
    BY_ROOT.put(key, done);
    Thread thread =
        new Thread(
            () -> {
              try {
                handOver.run();
              } finally {
                BY_ROOT.remove(key, done);
                done.complete(null);
              }
            },
            "understudy-hand-over");
    thread.setDaemon(true);
    thread.start();
  }

  /** Tasks run in such threads, too. What hands over reads state itself, in threads of ours. */
  private static boolean inThreadOfQuery() {
    return Thread.currentThread() instanceof UninterruptibleThread && TaskContext.get() == null;
  }

  /** Called before something below a checkpoint is read. */
  static void await(Path path) throws IOException {
    if (BY_ROOT.isEmpty() || !inThreadOfQuery()) {
      return;
    }
    for (Map.Entry<String, CompletableFuture<?>> each : BY_ROOT.entrySet()) {
      if ((path + "/").startsWith(each.getKey() + "/state/")) {
        try {
          Parallel.await(each.getValue(), "the state of " + path);
        } catch (ExecutionException e) {
          return; // Spark loads it
        }
      }
    }
  }
}
