package dev.understudy.rehearsal;

import java.util.Collections;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.function.BooleanSupplier;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/**
 * Tells of a query that has been started, before its first batch: Spark calls this listener in the
 * thread of the query, and waits for it.
 */
final class QueryStarts extends StreamingQueryListener {
  private static final Set<SparkSession> WATCHED =
      Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap<>()));

  private final SparkSession session;
  private final Told told;

  /** Is given the query's checkpoint, its run, and whether that is active. */
  interface Told {
    void started(String root, UUID run, BooleanSupplier runs);
  }

  private QueryStarts(SparkSession session, Told told) {
    this.session = session;
    this.told = told;
  }

  /** Once for each session. */
  static void watch(SparkSession session, Told told) {
    if (WATCHED.add(session)) {
      session.streams().addListener(new QueryStarts(session, told));
    }
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {
    if (session.streams().get(event.id()) instanceof StreamingQueryWrapper query) {
      told.started(query.streamingQuery().resolvedCheckpointRoot(), event.runId(), query::isActive);
    }
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {}

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {}
}
