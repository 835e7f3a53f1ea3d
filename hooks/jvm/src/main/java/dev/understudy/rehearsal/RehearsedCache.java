package dev.understudy.rehearsal;

import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.CacheTable;
import org.apache.spark.sql.catalyst.plans.logical.CacheTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;

/**
 * What a rehearsed function caches. All sessions of a driver share one cache, which finds an entry
 * by its plan: the next read of the same files gets the rows of then.
 *
 * <p>Noted by plan, and not taken from the difference of before and after: the script, and the
 * functions of other queries, may cache at the same time.
 */
final class RehearsedCache {
  private final CacheManager manager;
  private final RehearsedCache whole;
  private final Deque<Runnable> drops = new ArrayDeque<>();

  RehearsedCache(CacheManager manager) {
    this(manager, null);
  }

  private RehearsedCache(CacheManager manager, RehearsedCache whole) {
    this.manager = manager;
    this.whole = whole;
  }

  /** What is added to it is added here, too, and can be dropped alone. */
  RehearsedCache part() {
    return new RehearsedCache(manager, this);
  }

  /** These rows are about to be cached. */
  void add(Dataset<?> rows) {
    org.apache.spark.sql.classic.Dataset<?> frame = (org.apache.spark.sql.classic.Dataset<?>) rows;
    if (manager.lookupCachedData(frame).isEmpty()) {
      add(() -> manager.uncacheQuery(frame, false));
    }
  }

  /** If this is a statement that caches, it is about to run in the active session. */
  void add(LogicalPlan statement) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    if (statement instanceof CacheTable cache
        && manager.lookupCachedData(session, cache.table()).isEmpty()) {
      add(() -> manager.uncacheQuery(session, cache.table(), false));
    } else if (statement instanceof CacheTableAsSelect cache) {
      String view = cache.productElement(0).toString(); // a text or a literal, by Spark's version
      if (session.sessionState().catalog().getTempView(view).isEmpty()) {
        add(() -> session.catalog().dropTempView(view));
      }
    }
  }

  private synchronized void add(Runnable drop) {
    drops.push(drop);
    if (whole != null) {
      whole.add(drop);
    }
  }

  /** Lets go of it, the last one first, and of nothing that was made from it. */
  synchronized void drop() {
    while (!drops.isEmpty()) {
      drops.pop().run();
    }
  }
}
