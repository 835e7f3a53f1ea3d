package dev.understudy.rehearsal;

import java.io.File;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.LongStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoder;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoder;
import org.apache.spark.sql.execution.streaming.state.PrefixKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.RangeKeyScanStateEncoder;
import org.apache.spark.sql.execution.streaming.state.RangeKeyScanStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBKeyStateEncoder;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.RocksDBValueStateEncoder;
import org.apache.spark.sql.execution.streaming.state.StateSchemaProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.immutable.Seq;

/**
 * A store in RocksDB: its files lie on this machine's disk, and what the leader's changelog says
 * since is put into the open database. Without a changelog Spark fetches the files that are new.
 *
 * <p>A newer snapshot is taken, as far as its files differ, before the leader removes the one that
 * this database began with, and with it files that a snapshot of ours would refer to.
 */
final class WarmRocksStore extends WarmStore {
  /** Of the changelog; beyond that a snapshot is the shorter way. */
  private static final int MOST_CHANGES = 30;

  /** By version, the files of snapshots. */
  private static final String FILES = "versionToRocksDBFiles";

  private final RocksDBStateStoreProvider provider;

  private WarmRocksStore(RocksDBStateStoreProvider provider, long expected, Configuration conf) {
    super(provider, expected, conf);
    this.provider = provider;
  }

  @SuppressWarnings("unchecked")
  static WarmRocksStore of(
      RocksDBStateStoreProvider like,
      StateStoreId id,
      StateStoreConf settings,
      Configuration conf) {
    String encoding = (String) SparkInternals.get(like, "stateStoreEncoding");
    if (!encoding.equals("unsaferow")) {
      throw new UnsupportedOperationException("its state is encoded as " + encoding);
    }
    var encoders =
        (ConcurrentHashMap<
                String, Tuple3<RocksDBKeyStateEncoder, RocksDBValueStateEncoder, Object>>)
            SparkInternals.get(like, "keyValueEncoderMap");
    var encoder = encoders.get(StateStore$.MODULE$.DEFAULT_COL_FAMILY_NAME());
    RocksDBStateStoreProvider made = new RocksDBStateStoreProvider();
    init(
        made,
        like,
        id,
        keys(encoder._1(), (StructType) SparkInternals.get(like, "keySchema")),
        (boolean) SparkInternals.get(like, "useColumnFamilies"),
        encoder._2().supportsMultipleValuesPerKey(),
        (Option<StateSchemaProvider>) SparkInternals.get(like, "stateSchemaProvider"),
        settings,
        conf);
    return new WarmRocksStore(made, bytes(like.rocksDB()), conf);
  }

  /** What an encoder of keys was made from. */
  @SuppressWarnings("unchecked")
  private static KeyStateEncoderSpec keys(RocksDBKeyStateEncoder encoder, StructType key) {
    if (encoder.getClass() == NoPrefixKeyStateEncoder.class) {
      return new NoPrefixKeyStateEncoderSpec(key);
    }
    if (encoder.getClass() == PrefixKeyScanStateEncoder.class) {
      Seq<?> prefix = (Seq<?>) SparkInternals.get(encoder, "prefixKeyFieldsWithIdx");
      return new PrefixKeyScanStateEncoderSpec(key, prefix.size());
    }
    if (encoder.getClass() == RangeKeyScanStateEncoder.class) {
      return new RangeKeyScanStateEncoderSpec(
          key, (Seq<Object>) SparkInternals.get(encoder, "orderingOrdinals"));
    }
    throw new UnsupportedOperationException(
        "keys of its state are encoded by " + encoder.getClass().getName());
  }

  @Override
  void follow(long version) {
    if (isOld(provider.rocksDB(), version) || !catchUp(version)) {
      provider.getReadStore(version, Option.empty()).release();
      forgetOlder(provider.rocksDB());
    }
  }

  /**
   * Spark remembers the files of every snapshot that it has loaded until it purges that snapshot,
   * which the leader does.
   */
  @SuppressWarnings("unchecked")
  private static void forgetOlder(RocksDB db) {
    long snapshot = snapshot(db);
    if (SparkInternals.has(db.fileManager(), FILES)) {
      ((Map<Tuple2<Object, ?>, ?>) SparkInternals.get(db.fileManager(), FILES))
          .keySet()
          .removeIf(version -> (long) version._1() < snapshot);
    }
  }

  /**
   * Whether there is a newer snapshot than the one it began with, of which half its time is over.
   */
  private static boolean isOld(RocksDB db, long version) {
    long snapshot = snapshot(db);
    return version - snapshot > db.conf().minVersionsToRetain() / 2
        && db.fileManager().getLatestSnapshotVersion(version) > snapshot;
  }

  @Override
  boolean catchUp(long version) {
    RocksDB db = provider.rocksDB();
    long have = db.loadedVersion();
    if (have == version) {
      return true;
    }
    boolean possible =
        have > 0 && have < version && readsChanges(version - have) && snapshotIsThere(db);
    if (possible) {
      replay(db, have, version);
    }
    return possible;
  }

  /** Whether the files are still there that the next snapshot of this database would refer to. */
  private static boolean snapshotIsThere(RocksDB db) {
    long snapshot = snapshot(db);
    return snapshot == 0 || db.fileManager().existsSnapshotFile(snapshot, Option.empty());
  }

  private static long snapshot(RocksDB db) {
    return (long) SparkInternals.get(db, "lastSnapshotVersion");
  }

  /** What Spark does after it has loaded a snapshot, from any version on. */
  private static void replay(RocksDB db, long have, long version) {
    Tuple2<?, ?>[] changes =
        LongStream.rangeClosed(have + 1, version)
            .mapToObj(next -> new Tuple2<Object, Option<String>>(next, Option.empty()))
            .toArray(Tuple2<?, ?>[]::new);
    boolean done = false;
    try {
      SparkInternals.call(db, "replayChangelog", (Object) changes);
      for (String keys : new String[] {"numKeys", "numInternalKeys"}) {
        Object count = SparkInternals.get(db, keys + "OnWritingVersion");
        SparkInternals.set(db, keys + "OnLoadedVersion", count);
      }
      db.fileManager().setMaxSeenVersion(version);
      done = true;
    } finally {
      db.loadedVersion_$eq(done ? version : -1);
    }
  }

  /**
   * What was followed is in RocksDB's memory before it is in a file. Where Spark was told to bound
   * that memory, for all databases together, it is Spark's to count.
   */
  private static long bytes(RocksDB db) {
    long files = size((File) SparkInternals.get(db, "workingDir"));
    return db.conf().boundedMemoryUsage() ? files : files + db.getMemoryUsage();
  }

  @Override
  long bytes() {
    return bytes(provider.rocksDB());
  }

  /** Without those that RocksDB removes meanwhile. */
  private static long size(File file) {
    File[] inside = file.listFiles();
    return inside == null
        ? file.length()
        : Arrays.stream(inside).mapToLong(WarmRocksStore::size).sum();
  }

  @Override
  boolean readsChanges(long versions) {
    return provider.rocksDB().conf().enableChangelogCheckpointing() && versions <= MOST_CHANGES;
  }

  @Override
  String changesSuffix() {
    return ".changelog";
  }

  @Override
  boolean onHeap() {
    return false;
  }

  /** That it was loaded is counted for no run. */
  @Override
  @SuppressWarnings("unchecked")
  void belongsTo(StateStoreProviderId id) {
    if (SparkInternals.has(provider.rocksDB(), "loadedFromDfs")) {
      SparkInternals.set(provider.rocksDB(), "loadedFromDfs", false);
    }
    var forwarder = (Option<Object>) SparkInternals.get(provider.rocksDB(), "eventForwarder");
    if (forwarder.isDefined()) {
      SparkInternals.set(forwarder.get(), "queryRunId", id.queryRunId().toString());
      SparkInternals.set(forwarder.get(), "providerId", id);
    }
  }
}
