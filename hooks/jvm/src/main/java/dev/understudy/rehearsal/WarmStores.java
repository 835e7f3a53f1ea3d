package dev.understudy.rehearsal;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;

/** Which of Spark's state stores can be followed, and how. */
final class WarmStores {
  private WarmStores() {}

  /**
   * Makes a store that has loaded nothing.
   *
   * @param rehearsed the provider that a rehearsal has opened
   * @param id of the store in the query's checkpoint
   * @param conf Hadoop's, as the query will have it
   * @throws UnsupportedOperationException with the reason where such a store cannot be followed
   */
  static WarmStore of(StateStoreProvider rehearsed, StateStoreId id, Configuration conf) {
    StateStoreConf settings = (StateStoreConf) SparkInternals.get(rehearsed, "storeConf");
    if (settings.enableStateStoreCheckpointIds()) {
      throw new UnsupportedOperationException(
          "versions of its state have ids besides their numbers (checkpoint format 2)");
    }
    if (rehearsed.getClass() == HDFSBackedStateStoreProvider.class) {
      return WarmMapStore.of((HDFSBackedStateStoreProvider) rehearsed, id, settings, conf);
    }
    if (rehearsed.getClass() == RocksDBStateStoreProvider.class) {
      return WarmRocksStore.of((RocksDBStateStoreProvider) rehearsed, id, settings, conf);
    }
    throw new UnsupportedOperationException(
        "its state is kept by " + rehearsed.getClass().getName());
  }
}
