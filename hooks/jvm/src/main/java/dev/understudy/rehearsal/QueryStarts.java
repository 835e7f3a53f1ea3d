package dev.understudy.rehearsal;

import java.util.Collections;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.function.BiConsumer;
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
  private final BiConsumer<String, UUID> told;

  private QueryStarts(SparkSession session, BiConsumer<String, UUID> told) {
    this.session = session;
    this.told = told;
  }

  /**
   * Once for each session.
   *
   * @param told is given the query's checkpoint and run
   */
  static void watch(SparkSession session, BiConsumer<String, UUID> told) {
    if (WATCHED.add(session)) {
      session.streams().addListener(new QueryStarts(session, told));
    }
  }

  @Override
  public void onQueryStarted(QueryStartedEvent event) {
    if (session.streams().get(event.id()) instanceof StreamingQueryWrapper query) {
      told.accept(query.streamingQuery().resolvedCheckpointRoot(), event.runId());
    }
  }

  @Override
  public void onQueryProgress(QueryProgressEvent event) {}

  @Override
  public void onQueryTerminated(QueryTerminatedEvent event) {}
}
