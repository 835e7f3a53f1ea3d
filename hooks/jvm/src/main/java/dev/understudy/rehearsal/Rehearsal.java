package dev.understudy.rehearsal;

import dev.understudy.fence.CachingCheckpointFileSystem;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * The rehearsals of one streaming query: they run the leader's last batch again and again. So this
 * JVM has compiled what a takeover needs, and a checkpoint that cannot be read is found before it
 * is needed.
 *
 * <p>Rounds of one rehearsal come one after the other; different queries may rehearse at the same
 * time. A round runs in a separate thread: nothing of the caller's thread (active session, job
 * group) changes.
 *
 * <p>Not covered: sinks of the user's, and {@code foreachBatch} functions, which are called only
 * where the user says so ({@link #calling}); the fence, because the rehearsal uses Spark's own
 * checkpoint manager. With executors in other JVMs scratch has to be where they reach it.
 */
public final class Rehearsal {
  /**
   * The first rounds merge, until the JIT has seen it: a merge costs more than the rest of a round.
   */
  private static final int MERGES = 3;

  /** The same for a source in Python of ours: after these the JIT has seen its code. */
  private static final int WITH_ROWS_OF_OURS = 10;

  private final DataStreamWriter<?> user;
  private final String path;
  private final LogicalPlan plan;
  private final SparkSession userSession;
  private final Map<String, String> sqlConf;
  private final String checkpointRoot;
  private final Path scratch;
  private final RehearsalMode mode;
  private final String name = RehearsalLogFilter.NAME + UUID.randomUUID();

  private final FunctionLife functions;
  private BatchFunction function;
  private Rehearsal before;
  private WarmState state;
  private SparkSession session;
  private int rounds;
  private final AtomicLong bytesRead = new AtomicLong();
  private volatile boolean cancelled;
  private volatile RehearsedQuery running;
  private volatile DeltaScratch reading;
  private volatile RehearsedBatch batches;
  private volatile CompletableFuture<String> current;
  private final Object ending = new Object();
  private Thread player;
  private boolean closed;

  private Rehearsal(
      DataStreamWriter<?> user,
      String path,
      Dataset<?> data,
      Map<String, String> sqlConf,
      String checkpointRoot,
      Path scratch,
      RehearsalMode mode) {
    this.user = user;
    this.path = path;
    this.plan = data.queryExecution().analyzed();
    this.userSession = data.sparkSession();
    this.functions =
        new FunctionLife(
            new RehearsedJobs(userSession.sparkContext(), name),
            new SessionChanges(),
            () -> cancelled);
    this.sqlConf = sqlConf;
    this.checkpointRoot = checkpointRoot;
    this.scratch = scratch;
    this.mode = mode;
  }

  /**
   * Prepares rehearsals; runs nothing yet.
   *
   * @param writer what the script called {@code start()} on; only read
   * @param pathOrNull argument of {@code start(path)}; the sink is replaced
   * @param tableOrNull argument of {@code toTable(name)}; not used, the sink is replaced
   * @param sqlConf all of {@code spark.conf.getAll} at {@code start()}, or empty
   * @param checkpointRootOrNull the query's real checkpoint, which need not exist yet; null
   *     rehearses on a throw-away one
   * @param scratchDir a directory for this rehearsal alone; made when missing, removed by {@link
   *     #close()}
   * @param mode live, synthetic (made-up rows), plan (no rows, no checkpoint) or off
   * @throws IllegalArgumentException for another mode
   */
  public static Rehearsal of(
      DataStreamWriter<?> writer,
      String pathOrNull,
      String tableOrNull,
      Map<String, String> sqlConf,
      String checkpointRootOrNull,
      String scratchDir,
      String mode) {
    RehearsalMode parsed = RehearsalMode.of(mode);
    Dataset<?> data = (Dataset<?>) SparkInternals.get(writer, "ds");
    Map<String, String> settings = new HashMap<>(sqlConf);
    settings.values().removeIf(Objects::isNull);
    RehearsalLogFilter.install();
    if (parsed != RehearsalMode.OFF) {
      RememberedSource.in(data.queryExecution().analyzed());
    }
    Path scratch = new Path(scratchDir);
    return new Rehearsal(writer, pathOrNull, data, settings, checkpointRootOrNull, scratch, parsed);
  }

  /**
   * Lets rounds call the user's {@code foreachBatch} function, on a batch of the leader's: never on
   * made-up rows, nor before there is one. Before the first round.
   */
  public Rehearsal calling(BatchFunction function) {
    this.function = function;
    return this;
  }

  /**
   * Keeps the query's state loaded from the first round on, for its run at the grant: up to so many
   * bytes. Before the first round.
   */
  public Rehearsal keepingState(long bytes) {
    if (checkpointRoot != null && userSession.sparkContext().isLocal() && bytes > 0) {
      state = WarmState.of(checkpointRoot, userSession, sqlConf, bytes);
    }
    return this;
  }

  /** Whether the query has a source in Python, in whose place every round has made-up rows. */
  public boolean readsPython() {
    return mode != RehearsalMode.OFF && Sources.inPython(plan);
  }

  /**
   * The first rounds are preceded by those of {@code other}, which warms up what this one replaces.
   * What that meets is of no importance. Before the first round.
   */
  public Rehearsal after(Rehearsal other) {
    before = other;
    return this;
  }

  /** The newest batch after which all of the query's state is loaded; -1 where none is. */
  public long stateLoaded() {
    return state == null ? -1 : state.loaded();
  }

  /**
   * One round, synchronously.
   *
   * @return {@code
   *     {"how":"live"|"synthetic"|"throwaway"|"plan"|"off","batch":N,"seconds":S,"rows":R}}; batch
   *     is -1 when none was run
   * @throws CancellationException once {@link #cancel()} was called, also in the middle of a round
   * @throws IllegalStateException when the batch could not be run; its message says why, and
   *     whether the next round may succeed
   */
  public synchronized String round() {
    if (before != null && rounds < WITH_ROWS_OF_OURS) {
      try {
        before.round();
      } catch (RuntimeException e) {
        // it is there to be compiled, and nothing depends on it
      }
    }
    CompletableFuture<String> round = new CompletableFuture<>();
    current = round;
    if (cancelled) { // looked at after `current` is set: the later of the two sees the other
      throw new CancellationException("the rehearsal was cancelled");
    }
    if (mode == RehearsalMode.OFF) {
      return new PlayedRound(false, false, 0).json("off", -1, 0);
    }
    Thread thread = new Thread(() -> play(round), name);
    thread.setDaemon(true);
    synchronized (ending) {
      player = thread;
    }
    thread.start();
    try {
      return round.join();
    } catch (CompletionException e) {
      throw e.getCause() instanceof RuntimeException cause
          ? cause
          : new IllegalStateException(e.getCause());
    } finally {
      current = null;
    }
  }

  /**
   * Returns the bytes of the files that all rounds were given to read again, failed rounds
   * included. Those of a throw-away checkpoint are unknown.
   */
  public long bytesRead() {
    return bytesRead.get();
  }

  /** Between two rounds: follows the query's state no further for a while. */
  public void sitOut() {
    if (state != null) {
      state.sitOut();
    }
  }

  /**
   * Ends the rehearsal at once and for good. Never waits; what is left of a round is cleared away
   * in the background. What a function of the user's has cached is let go when this returns, and
   * what it is caching or changing of a session now once {@link #letGo} has.
   */
  public void cancel() {
    cancelled = true;
    RehearsedBatch called = batches;
    if (called != null) {
      called.cancel();
    }
    functions.jobs().cancel();
    if (before != null) {
      before.cancel();
    }
    if (state != null) {
      state.awaitStart();
    }
    CompletableFuture<String> round = current;
    if (round != null) {
      round.completeExceptionally(new CancellationException("the rehearsal was cancelled"));
    }
    DeltaScratch delta = reading;
    if (delta != null) {
      delta.cancel();
    }
    RehearsedQuery query = running;
    if (query != null) {
      RehearsalLogFilter.cancelled(name);
      Thread thread = new Thread(query::stop, name + "-cancel");
      thread.setDaemon(true);
      thread.start();
    }
  }

  /** After {@link #cancel()}: waits until functions change nothing more that batches would find. */
  public void letGo() throws InterruptedException {
    functions.changes().awaitNone();
  }

  /** Cancels, and removes scratch; while a round is still ending, that round does it. */
  public void close() {
    cancel();
    if (before != null) {
      before.close();
    }
    Thread last;
    synchronized (ending) {
      closed = true;
      last = player;
    }
    if (last == null) {
      removeScratch();
    }
  }

  private void removeScratch() {
    try {
      scratch.getFileSystem(userSession.sessionState().newHadoopConf()).delete(scratch, true);
    } catch (IOException e) {
      throw new IllegalStateException(
          "scratch " + scratch + " could not be removed. Remove it by hand", e);
    }
  }

  // ---- a round, in its own thread

  private void play(CompletableFuture<String> round) {
    try {
      RehearsalSession.clearInherited(userSession.sparkContext());
      String played = play();
      end();
      round.complete(played);
    } catch (Throwable e) {
      end();
      round.completeExceptionally(e);
    }
  }

  private void end() {
    RehearsalLogFilter.settled(name);
    boolean closing;
    synchronized (ending) {
      player = null;
      closing = closed;
    }
    if (closing) {
      removeScratch();
    }
  }

  private String play() throws Exception {
    long began = System.nanoTime();
    if (session == null) {
      session = RehearsalSession.clone(userSession, sqlConf);
    }
    Configuration conf = session.sessionState().newHadoopConf();
    ReplayableBatch past = null;
    if (checkpointRoot != null && mode != RehearsalMode.PLAN) {
      Path root = new Path(checkpointRoot);
      FileSystem fs = CachingCheckpointFileSystem.of(root, conf);
      past = ReplayableBatch.find(fs, fs.makeQualified(root));
    }
    Sources.Rows rows =
        mode == RehearsalMode.PLAN
            ? Sources.Rows.NONE
            : mode == RehearsalMode.SYNTHETIC ? Sources.Rows.GENERATED : Sources.Rows.REAL;
    PlayedRound result = act(past, rows, conf);
    if (!result.ran() && rows == Sources.Rows.REAL) { // a throw-away checkpoint, and no input yet
      result = act(past, Sources.Rows.GENERATED, conf);
    }
    if (!result.ran()) {
      throw new IllegalStateException(
          "the query ended without running a batch" + (past == null ? "" : " from " + past.root()));
    }
    String how =
        mode == RehearsalMode.PLAN
            ? "plan"
            : result.generated() ? "synthetic" : past == null ? "throwaway" : "live";
    return result.json(how, past == null ? 0 : past.batch(), (System.nanoTime() - began) / 1e9);
  }

  private PlayedRound act(ReplayableBatch past, Sources.Rows rows, Configuration conf)
      throws Exception {
    FileSystem scratchFs = scratch.getFileSystem(conf);
    Path mine = scratchFs.makeQualified(new Path(scratch, "round-" + rounds++));
    FileSystem raw = scratchFs instanceof LocalFileSystem local ? local.getRaw() : scratchFs;
    boolean shared = RehearsalSession.sharesScratch(session.sparkContext(), scratch, scratchFs);
    Overlay overlay = Overlay.open(past, mine, scratchFs, shared);
    Path kept = scratchFs.makeQualified(scratch);
    boolean reads = rows == Sources.Rows.REAL && !cancelled;
    try (DeltaScratch delta = new DeltaScratch(session, kept, mine, rounds <= MERGES, reads)) {
      reading = delta;
      Sources.Rewritten rewritten = Sources.rewrite(plan, session, past, rows);
      bytesRead.addAndGet(rewritten.bytes());
      Dataset<Row> data = Dataset.ofRows(session, rewritten.plan());
      BatchFunction called = past == null || rewritten.generated() ? null : function;
      RehearsedBatch batches = new RehearsedBatch(called, userSession, mine, delta, functions);
      this.batches = batches;
      DataStreamWriter<Row> writer =
          Sinks.writer(user, path, data, name, overlay.root(), mine, delta, batches);
      return run(writer, overlay, past, rewritten);
    } finally {
      overlay.close();
      raw.delete(mine, true);
    }
  }

  private PlayedRound run(
      DataStreamWriter<Row> writer,
      Overlay overlay,
      ReplayableBatch past,
      Sources.Rewritten sources)
      throws Exception {
    RehearsedQuery query = RehearsedQuery.start(writer, session, overlay, () -> cancelled);
    running = query;
    try {
      if (!cancelled) { // looked at after `running` is set
        query.watch();
      }
    } finally {
      query.end();
      running = null;
      if (state != null && past != null && overlay.batchCommitted() && !cancelled) {
        state.learn(query.runId());
      }
      query.clear();
    }
    query.requireSuccess(past);
    return new PlayedRound(overlay.batchCommitted(), sources.generated(), query.rows());
  }
}
