package dev.understudy.rehearsal;

import java.util.Map;
import java.util.NavigableMap;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreMap;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * A store of Spark's default kind, which is a map on the heap: what the leader has changed since is
 * put into the map, where Spark would read its last snapshot and all changes after it.
 */
final class WarmMapStore extends WarmStore {
  /** Of a key, its value and their place in the map, besides their bytes. */
  private static final int OVERHEAD = 150;

  private static final int SAMPLE = 100;

  private final HDFSBackedStateStoreProvider provider;

  private WarmMapStore(HDFSBackedStateStoreProvider provider, long expected, Configuration conf) {
    super(provider, expected, conf);
    this.provider = provider;
  }

  static WarmMapStore of(
      HDFSBackedStateStoreProvider like,
      StateStoreId id,
      StateStoreConf settings,
      Configuration conf) {
    if (settings.maxVersionsToRetainInMemory() < 1) {
      throw new UnsupportedOperationException(
          "spark.sql.streaming.maxBatchesToRetainInMemory is 0: no state is kept in memory");
    }
    StructType key = (StructType) SparkInternals.get(like, "keySchema");
    int prefix = (int) SparkInternals.get(like, "numColsPrefixKey");
    KeyStateEncoderSpec keys =
        prefix == 0
            ? new NoPrefixKeyStateEncoderSpec(key)
            : new PrefixKeyScanStateEncoderSpec(key, prefix);
    HDFSBackedStateStoreProvider made = new HDFSBackedStateStoreProvider();
    init(made, like, id, keys, false, false, Option.empty(), settings, conf);
    return new WarmMapStore(made, bytes(maps(like)), conf);
  }

  @Override
  void follow(long version) {
    if (!catchUp(version)) {
      maps(provider).clear();
      SparkInternals.call(provider, "loadMap", version);
    }
  }

  @Override
  boolean catchUp(long version) {
    NavigableMap<Object, HDFSBackedStateStoreMap> maps = maps(provider);
    Map.Entry<Object, HDFSBackedStateStoreMap> have = maps.isEmpty() ? null : maps.firstEntry();
    if (have == null || (long) have.getKey() > version) {
      return false;
    }
    maps.clear(); // until all changes are in it
    for (long next = (long) have.getKey() + 1; next <= version; next++) {
      SparkInternals.call(provider, "updateFromDeltaFile", next, have.getValue());
    }
    maps.put(version, have.getValue());
    return true;
  }

  @SuppressWarnings("unchecked")
  private static NavigableMap<Object, HDFSBackedStateStoreMap> maps(
      HDFSBackedStateStoreProvider provider) {
    return (NavigableMap<Object, HDFSBackedStateStoreMap>)
        SparkInternals.call(provider, "loadedMaps");
  }

  @Override
  long bytes() {
    return bytes(maps(provider));
  }

  private static long bytes(NavigableMap<Object, HDFSBackedStateStoreMap> maps) {
    if (maps.isEmpty()) {
      return 0;
    }
    HDFSBackedStateStoreMap map = maps.firstEntry().getValue();
    scala.collection.Iterator<UnsafeRowPair> rows = map.iterator();
    long bytes = 0;
    int count = 0;
    for (; count < SAMPLE && rows.hasNext(); count++) {
      UnsafeRowPair row = rows.next();
      bytes += row.key().getSizeInBytes() + row.value().getSizeInBytes() + OVERHEAD;
    }
    return count == 0 ? 0 : bytes * map.size() / count;
  }

  @Override
  boolean readsChanges(long versions) {
    return true;
  }

  @Override
  String changesSuffix() {
    return ".delta";
  }

  @Override
  boolean onHeap() {
    return true;
  }

  /** What has been counted so far belongs to no run. */
  @Override
  void belongsTo(StateStoreProviderId id) {
    for (String count : new String[] {"loadedMapCacheHitCount", "loadedMapCacheMissCount"}) {
      ((LongAdder) SparkInternals.get(provider, count)).reset();
    }
  }
}
