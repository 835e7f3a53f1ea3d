package dev.understudy.rehearsal;

import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.TERMINATED$;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/** The query of one round, from its start to its end. */
final class RehearsedQuery {
  private static final long POLL_MILLIS = 2;
  private static final long END_MILLIS = 5_000;

  /**
   * How long to wait, after the batch, until the query looks for more input: a takeover needs that
   * code, too.
   */
  private static final long LOOK_FOR_MORE_NANOS = 1_000_000_000L;

  private final SparkSession session;
  private final Overlay overlay;
  private final BooleanSupplier cancelled;
  private final StreamExecution query;

  private RehearsedQuery(
      SparkSession session, Overlay overlay, BooleanSupplier cancelled, StreamExecution query) {
    this.session = session;
    this.overlay = overlay;
    this.cancelled = cancelled;
    this.query = query;
  }

  static RehearsedQuery start(
      DataStreamWriter<Row> writer,
      SparkSession session,
      Overlay overlay,
      BooleanSupplier cancelled)
      throws Exception {
    StreamExecution query = ((StreamingQueryWrapper) writer.start()).streamingQuery();
    RehearsalLogFilter.begin(query.runId().toString());
    return new RehearsedQuery(session, overlay, cancelled, query);
  }

  /**
   * Returns when the batch is committed in scratch and the query has looked for more, or has found
   * nothing to read, or has ended.
   */
  void watch() throws InterruptedException {
    long committedAt = 0;
    while (query.isActive() && !cancelled.getAsBoolean() && !overlay.wentOn()) {
      if (overlay.batchCommitted()) {
        long now = System.nanoTime();
        committedAt = committedAt == 0 ? now : committedAt;
        if (idle() || now - committedAt > LOOK_FOR_MORE_NANOS) {
          return;
        }
      } else if (!overlay.batchStarted() && idle()) {
        return;
      }
      Thread.sleep(POLL_MILLIS);
    }
  }

  private boolean idle() {
    String message = query.status().message();
    return message.equals("Waiting for data to arrive")
        || message.equals("Waiting for next trigger");
  }

  /** Ends the query, and waits until it has ended. */
  void end() throws InterruptedException {
    if (cancelled.getAsBoolean() || !ended()) {
      stop();
    }
  }

  /**
   * Ends the query the way its own triggers end it. {@code stop()} would do, but warns twice that
   * there are no jobs left to cancel.
   *
   * @return whether it has ended
   */
  private boolean ended() throws InterruptedException {
    @SuppressWarnings("unchecked")
    AtomicReference<Object> state = (AtomicReference<Object>) SparkInternals.call(query, "state");
    state.set(TERMINATED$.MODULE$);
    overlay.release();
    query.queryExecutionThread().join(END_MILLIS);
    return !query.queryExecutionThread().isAlive();
  }

  /** Cancels the query's jobs, interrupts its thread, and waits for it to end. */
  void stop() {
    try {
      query.stop();
    } catch (TimeoutException e) {
      throw new IllegalStateException(
          "the rehearsal's query does not stop; it is left to end by itself", e);
    }
  }

  UUID runId() {
    return query.runId();
  }

  /** Clears what an ended query leaves in the JVM. */
  void clear() throws InterruptedException {
    String run = query.runId().toString();
    boolean orderly = !cancelled.getAsBoolean() && query.exception().isEmpty();
    if (orderly || StateStoreCleanup.tasksEnd(session.sparkContext(), run)) {
      StateStoreCleanup.unloadStateStores(query.runId());
    }
    RehearsalSession.silence(query.sparkSessionForStream());
    RehearsalSession.silence(session);
    RehearsalLogFilter.end(run);
  }

  /**
   * Raises why the batch was not rehearsed.
   *
   * @param past the batch that was to be run again; null on a throw-away checkpoint
   * @throws CancellationException if the rehearsal was cancelled
   * @throws IllegalStateException if the query failed before it committed the batch
   */
  void requireSuccess(ReplayableBatch past) {
    if (cancelled.getAsBoolean()) {
      throw new CancellationException("the rehearsal was cancelled");
    }
    if (!query.exception().isDefined() || overlay.batchCommitted()) {
      return;
    }
    Throwable cause = query.exception().get();
    if (past != null && past.leftBehind()) {
      throw new IllegalStateException(
          "the leader went on while batch "
              + past.batch()
              + " was rehearsed and may have purged what it needs. The next round takes a newer"
              + " one",
          cause);
    }
    String from = past == null ? "" : " from " + past.root();
    throw new IllegalStateException(
        "batch " + overlay.batch() + " could not be rehearsed" + from + ": " + cause, cause);
  }

  /** Rows that the batch has read. */
  long rows() {
    StreamingQueryProgress progress = query.lastProgress();
    return progress == null ? 0 : progress.numInputRows();
  }
}
