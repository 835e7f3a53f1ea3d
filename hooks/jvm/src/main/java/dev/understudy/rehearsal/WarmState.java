package dev.understudy.rehearsal;

import dev.understudy.fence.CachingCheckpointFileSystem;
import dev.understudy.fence.Parallel;
import dev.understudy.fence.Sneaky;
import dev.understudy.fence.StateOnItsWay;
import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The state of one query on a standby: loaded after the first rehearsal that used it, and followed
 * as the leader commits, so that a takeover loads what is new and no more.
 *
 * <p>State is followed to committed batches only, whose state is not written again. Nothing else is
 * trusted to be unchanged: a store is dropped, until the next rehearsal, where the checkpoint no
 * longer knows of the batch that it was loaded up to (see {@link CommittedBatch}), and after any
 * error; all of them where all queries together take more than they may. Then a takeover loads its
 * state as Spark does.
 *
 * <p>Only where tasks run in this JVM. Not followed: providers other than Spark's two, and
 * checkpoint format 2.
 */
final class WarmState {
  private static final Logger LOG = LoggerFactory.getLogger(WarmState.class);
  private static final Map<String, WarmState> BY_ROOT = new ConcurrentHashMap<>();

  /**
   * Between two looks at what the leader has committed. On a local disk a look costs processors:
   * {@value #PAUSE_FACTOR} times as long as it takes, within these limits.
   */
  private static final long PAUSE_MILLIS = 2_000;

  private static final long LONGEST_PAUSE_MILLIS = 10_000;
  private static final int PAUSE_FACTOR = 20;

  /** The same in an object store, where a look is three requests if there is nothing new. */
  private static final long PAUSE_OF_STORES_MILLIS = 5_000;

  /** How long nothing is read once a takeover is about to come. */
  private static final long SIT_OUT_NANOS = TimeUnit.SECONDS.toNanos(30);

  /** How long after the grant a query may be started that is handed its state. */
  private static final long AWAITED_NANOS = TimeUnit.MINUTES.toNanos(5);

  /** How often following may fail in a row until it is given up. */
  private static final int FAILURES = 30;

  /** A takeover waits as long, too: Spark would have to read the same, and more. */
  private static final long PATIENCE_MILLIS = TimeUnit.MINUTES.toMillis(10);

  private final Path root;
  private final Configuration conf;
  private final long limit;
  private final Map<StateStoreId, WarmStore> stores = new ConcurrentHashMap<>();
  private int failures;

  /** Guards {@link #begun}, and that one run at a time is learned from. */
  private final Object learning = new Object();

  private boolean begun;

  /** Nothing more is loaded. This object's monitor is notified of it. */
  private final AtomicBoolean over = new AtomicBoolean();

  private volatile long quietUntil = System.nanoTime();
  private volatile long awaitedUntil = Long.MAX_VALUE;

  private WarmState(Path root, Configuration conf, long limit) {
    this.root = root;
    this.conf = conf;
    this.limit = limit;
  }

  /**
   * That of the query with this checkpoint.
   *
   * @param session the script's
   * @param settings SQL settings of the query, besides the session's
   * @param limit bytes that all queries of this JVM may take together
   */
  static WarmState of(String root, SparkSession session, Map<String, String> settings, long limit) {
    Configuration conf = session.sessionState().newHadoopConf();
    settings.forEach(conf::set);
    conf.set(StreamExecution.RUN_ID_KEY(), UUID.randomUUID().toString());
    Path path = new Path(root);
    Path qualified = Sneaky.call(() -> path.getFileSystem(conf).makeQualified(path));
    QueryStarts.watch(session, WarmState::started);
    return BY_ROOT.computeIfAbsent(
        qualified.toString(), name -> new WarmState(qualified, conf, limit));
  }

  /** The newest batch whose state is loaded, in all partitions; -1 where there is none. */
  long loaded() {
    return stores.values().stream()
        .map(store -> store.seen)
        .mapToLong(seen -> seen == null ? -1 : seen.number())
        .min()
        .orElse(-1);
  }

  /** The query with this checkpoint has been started: its run takes over what is loaded. */
  private static void started(String root, UUID run, BooleanSupplier runs) {
    WarmState known = BY_ROOT.remove(root);
    if (known != null && known.ends()) {
      known.handOver(run, runs);
    }
  }

  /** Follows every store that a run of a rehearsal has loaded. Raises nothing. */
  void learn(UUID run) {
    quietUntil = System.nanoTime();
    awaitedUntil = Long.MAX_VALUE;
    synchronized (learning) {
      try {
        for (StateStoreProvider rehearsed : LoadedStores.of(run).values()) {
          if (quiet()) { // a takeover has begun, which is not to be disturbed
            break;
          }
          learn(rehearsed);
        }
        requireLimits(); // by what the rehearsal's take: nothing is loaded yet
      } catch (UnsupportedOperationException | IllegalStateException | LinkageError e) {
        giveUp(e.getMessage());
      } catch (Exception e) { // IOException too, which Scala does not declare
        LOG.warn("not all state of {} is kept loaded, until the next rehearsal: {}", root, e);
      }
      if (!begun && !stores.isEmpty()) {
        begun = true;
        Thread thread = new Thread(this::run, "understudy-state");
        thread.setDaemon(true);
        thread.start();
      }
    }
  }

  private void learn(StateStoreProvider rehearsed) {
    StateStoreId there = rehearsed.stateStoreId();
    StateStoreId id =
        new StateStoreId(
            new Path(root, "state").toString(),
            there.operatorId(),
            there.partitionId(),
            there.storeName());
    if (!stores.containsKey(id)) {
      WarmStore made = WarmStores.of(rehearsed, id, conf);
      stores.put(id, made);
      // those that were there then are handed over or closed, perhaps without this one
      if (over.get()) {
        close(List.of(made));
      }
    }
  }

  /** Reads nothing for a while, or until the next rehearsal has ended. */
  void sitOut() {
    quietUntil = System.nanoTime() + SIT_OUT_NANOS;
  }

  /** As {@link #sitOut}, and if there is no other rehearsal, the query has to be started soon. */
  void awaitStart() {
    sitOut();
    awaitedUntil = System.nanoTime() + AWAITED_NANOS;
  }

  private boolean quiet() {
    return over.get() || quietUntil - System.nanoTime() > 0;
  }

  /** Whether it was not over before. */
  private boolean ends() {
    boolean before = over.getAndSet(true);
    synchronized (this) {
      notifyAll();
    }
    return !before;
  }

  private void giveUp(String reason) {
    if (ends()) {
      LOG.warn("the state of {} is not kept loaded: {}", root, reason);
    }
  }

  // ---- in a thread of its own

  private void run() {
    try {
      long pause = PAUSE_MILLIS;
      while (pauses(pause)) {
        long began = System.nanoTime();
        boolean local = quiet() || follow();
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        pause =
            local ? Math.min(LONGEST_PAUSE_MILLIS, PAUSE_FACTOR * took) : PAUSE_OF_STORES_MILLIS;
        pause = Math.max(PAUSE_MILLIS, pause);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      if (BY_ROOT.containsValue(this)) { // not handed over, which closes what is left by itself
        ends();
        close(stores.values());
      }
    }
  }

  /** Returns whether to go on. */
  private synchronized boolean pauses(long millis) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    while (!over.get() && until - System.nanoTime() > 0) {
      wait(1 + TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime()));
    }
    if (awaitedUntil != Long.MAX_VALUE && System.nanoTime() - awaitedUntil > 0) {
      giveUp("the query was not started");
    }
    return !over.get();
  }

  /** Returns whether the checkpoint is on a local disk. */
  private boolean follow() {
    boolean local = true;
    if (stores.isEmpty()) {
      return local;
    }
    try {
      FileSystem files = CachingCheckpointFileSystem.of(root, conf);
      local = !(files instanceof CachingCheckpointFileSystem);
      CommittedBatch batch = CommittedBatch.newest(files, root);
      if (batch != null) {
        Collection<CommittedBatch> there = known(files);
        Parallel.each(
            List.copyOf(stores.values()), PATIENCE_MILLIS, store -> bringUpTo(batch, store, there));
      }
      failures = 0;
    } catch (IOException | RuntimeException | LinkageError e) {
      // the leader may have purged what was to be read; then there is something newer
      if (++failures == FAILURES) {
        LOG.warn("the state of {} is not kept loaded until the next rehearsal: {}", root, e);
        failures = 0;
        close(stores.values());
      }
    }
    return local;
  }

  /** Those of the batches up to which stores are loaded that the checkpoint still knows of. */
  private Collection<CommittedBatch> known(FileSystem files) throws IOException {
    Map<CommittedBatch, Boolean> found = new HashMap<>();
    for (WarmStore store : stores.values()) {
      CommittedBatch seen = store.seen;
      if (seen != null && !found.containsKey(seen)) {
        found.put(seen, seen.isIn(files, root));
      }
    }
    found.values().removeIf(there -> !there);
    return found.keySet();
  }

  private Void bringUpTo(CommittedBatch batch, WarmStore store, Collection<CommittedBatch> there) {
    store.lock.lock();
    try {
      if (quiet() || batch.equals(store.seen)) {
        return null;
      }
      CommittedBatch before = store.seen;
      store.seen = null;
      boolean done = false;
      try {
        if (before == null || there.contains(before)) {
          store.follow(batch.state());
          store.seen = batch;
          done = true;
          store.measure();
          requireLimits();
        }
      } finally {
        if (!done) {
          stores.remove(store.id());
          store.close();
        }
      }
      return null;
    } finally {
      store.lock.unlock();
    }
  }

  private void requireLimits() {
    String reason =
        StateLimits.exceeded(
            BY_ROOT.values().stream().flatMap(each -> each.stores.values().stream()).toList(),
            limit);
    if (reason != null) {
      giveUp(reason);
    }
  }

  private void close(Collection<WarmStore> unused) {
    for (WarmStore store : unused) {
      store.lock.lock();
      try {
        store.seen = null;
        stores.remove(store.id(), store);
        store.close();
      } catch (RuntimeException e) {
        LOG.warn("{}: a store of its state is not closed: {}", root, e.toString());
      } finally {
        store.lock.unlock();
      }
    }
  }

  // ---- at the grant

  /** In the thread of the query, which on an object store reads its logs meanwhile. */
  private void handOver(UUID run, BooleanSupplier runs) {
    FileSystem files = Sneaky.call(() -> CachingCheckpointFileSystem.of(root, conf));
    if (files instanceof CachingCheckpointFileSystem) {
      StateOnItsWay.to(root, () -> handOver(run, runs, files));
    } else {
      handOver(run, runs, files);
    }
  }

  private void handOver(UUID run, BooleanSupplier runs, FileSystem files) {
    List<WarmStore> all = List.copyOf(stores.values());
    Collection<WarmStore> left = ConcurrentHashMap.newKeySet();
    left.addAll(all);
    try {
      CommittedBatch batch = CommittedBatch.newest(files, root);
      if (batch == null) {
        return;
      }
      if (files instanceof CachingCheckpointFileSystem ahead) {
        ahead.willRead(
            root, all.stream().flatMap(each -> each.changes(batch.state()).stream()).toList());
      }
      Collection<CommittedBatch> there = known(files);
      Parallel.each(
          all,
          PATIENCE_MILLIS,
          store -> handOver(store, batch, there, files, run, runs) && left.remove(store));
      long current =
          all.stream().filter(each -> !left.contains(each) && batch.equals(each.seen)).count();
      LOG.info("{}: {} of {} stores of its state were loaded", root, current, all.size());
    } catch (IOException | RuntimeException | LinkageError e) {
      LOG.warn("the state of {} is loaded again, not all of it was taken over: {}", root, e);
    } finally {
      Thread thread = new Thread(() -> close(left), "understudy-state-close");
      thread.setDaemon(true);
      thread.start();
    }
  }

  /** Waits for one that is being loaded just now: Spark would begin once more. */
  private boolean handOver(
      WarmStore store,
      CommittedBatch batch,
      Collection<CommittedBatch> there,
      FileSystem files,
      UUID run,
      BooleanSupplier runs)
      throws IOException {
    store.lock.lock();
    try {
      CommittedBatch seen = store.seen;
      if (seen == null || !(there.contains(seen) || seen.isIn(files, root))) {
        return false;
      }
      store.seen = null;
      if (store.catchUp(batch.state())) {
        store.seen = batch;
      } // otherwise Spark loads it, from what it has
      return runs.getAsBoolean() && store.handOver(run);
    } finally {
      store.lock.unlock();
    }
  }
}
