package dev.understudy.rehearsal;

import java.util.List;
import java.util.UUID;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.LongStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateSchemaProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * One store of a query's state on a standby: loaded, and brought up to each version that the leader
 * has committed. Spark's own provider, on the leader's checkpoint, from which it only reads.
 *
 * <p>Made after the one that a rehearsal of the query used. Its methods need {@link #lock}.
 */
abstract class WarmStore {
  final ReentrantLock lock = new ReentrantLock();

  /** The batch whose state it holds; null before it holds any, and once it may be wrong. */
  volatile CommittedBatch seen;

  /** Bytes that it took when it was last measured; before that, what a rehearsal's store takes. */
  volatile long measured;

  private boolean closed;
  private final StateStoreProvider provider;
  private final Configuration conf;

  WarmStore(StateStoreProvider provider, long expected, Configuration conf) {
    this.provider = provider;
    this.measured = expected;
    this.conf = conf;
  }

  /** Makes {@code made} what {@code like} is, with another id. */
  static void init(
      StateStoreProvider made,
      StateStoreProvider like,
      StateStoreId id,
      KeyStateEncoderSpec keys,
      boolean columnFamilies,
      boolean severalValues,
      Option<StateSchemaProvider> schemas,
      StateStoreConf settings,
      Configuration conf) {
    made.init(
        id,
        (StructType) SparkInternals.get(like, "keySchema"),
        (StructType) SparkInternals.get(like, "valueSchema"),
        keys,
        columnFamilies,
        settings,
        conf,
        severalValues,
        schemas);
  }

  StateStoreId id() {
    return provider.stateStoreId();
  }

  /** Loads this version of the state, or what of it is new. After an error nothing is loaded. */
  abstract void follow(long version);

  /**
   * Loads only what is new in this version of the state, and does nothing where that is not enough:
   * Spark then loads it when it is first used.
   *
   * @return whether this version is loaded
   */
  abstract boolean catchUp(long version);

  /** The files that {@link #catchUp} to this version would read. */
  final List<Path> changes(long version) {
    CommittedBatch loaded = seen;
    if (loaded == null || !readsChanges(version - loaded.state())) {
      return List.of();
    }
    return LongStream.rangeClosed(loaded.state() + 1, version)
        .mapToObj(each -> new Path(id().storeCheckpointLocation(), each + changesSuffix()))
        .toList();
  }

  /** Whether it catches up by what changed in so many versions. */
  abstract boolean readsChanges(long versions);

  abstract String changesSuffix();

  /** Bytes that it takes, about: of the heap, or of the disk and of memory beside the heap. */
  abstract long bytes();

  abstract boolean onHeap();

  final void measure() {
    measured = bytes();
  }

  /**
   * Makes it a store that this run of the query has loaded, and Spark's to close.
   *
   * @return false where the run has loaded one already
   */
  boolean handOver(UUID run) {
    StateStoreProviderId id = new StateStoreProviderId(provider.stateStoreId(), run);
    conf.set(StreamExecution.RUN_ID_KEY(), run.toString());
    SparkInternals.set(provider, "stateStoreProviderId", id);
    belongsTo(id);
    return LoadedStores.add(id, provider);
  }

  abstract void belongsTo(StateStoreProviderId id);

  /** Once; the second time it does nothing. */
  final void close() {
    if (!closed) {
      closed = true;
      provider.close();
    }
  }
}
