package dev.understudy.rehearsal;

import dev.understudy.fence.CachingCheckpointFileSystem;
import java.io.IOException;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.execution.streaming.runtime.TERMINATED$;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;

/**
 * The rehearsals of one streaming query: again and again the leader's last batch, so that this JVM has compiled what a takeover needs, and
 * a checkpoint that cannot be read is found before it is needed.
 *
 * <p>Rounds of one rehearsal come one after the other; different queries may rehearse at the same time. A round runs in a thread of its
 * own: nothing of the caller's thread (active session, job group) changes.
 *
 * <p>Not covered: sinks and {@code foreachBatch} functions of the user's, which are never called; the fence, because the rehearsal uses
 * Spark's own checkpoint manager. With executors in other JVMs scratch has to be where they reach it.
 */
public final class Rehearsal {
    /** In the names of its threads and queries, by which {@link RehearsalLogFilter} knows them. */
    static final String NAME = "understudy-rehearsal-";

    /** So many rounds merge: the JIT has seen it then, and it costs more than all the rest of a round. */
    private static final int MERGES = 3;

    private static final long POLL_MILLIS = 2;
    private static final long END_MILLIS = 5_000;

    /** How long to wait, after the batch, for the query to look for more input: that code is on the way of a takeover, too. */
    private static final long LOOK_FOR_MORE_NANOS = 1_000_000_000L;

    private enum Mode {
        LIVE,
        SYNTHETIC,
        PLAN,
        OFF
    }

    private final DataStreamWriter<?> user;
    private final LogicalPlan plan;
    private final SparkSession userSession;
    private final Map<String, String> sqlConf;
    private final String checkpointRoot;
    private final Path scratch;
    private final Mode mode;
    private final String name = NAME + UUID.randomUUID();

    private SparkSession session;
    private int rounds;
    private volatile long bytesRead;
    private volatile boolean cancelled;
    private volatile StreamExecution running;
    private volatile CompletableFuture<String> current;
    private final Object ending = new Object();
    private Thread player;
    private boolean closed;

    private Rehearsal(
            DataStreamWriter<?> user, Dataset<?> data, Map<String, String> sqlConf, String checkpointRoot, Path scratch, Mode mode) {
        this.user = user;
        this.plan = data.queryExecution().analyzed();
        this.userSession = data.sparkSession();
        this.sqlConf = sqlConf;
        this.checkpointRoot = checkpointRoot;
        this.scratch = scratch;
        this.mode = mode;
    }

    /**
     * @param writer what the script called {@code start()} on; only read
     * @param pathOrNull argument of {@code start(path)}; not used, the sink is replaced
     * @param tableOrNull argument of {@code toTable(name)}; not used, the sink is replaced
     * @param sqlConf all of {@code spark.conf.getAll} at {@code start()}, or empty
     * @param checkpointRootOrNull the query's real checkpoint, which need not exist yet; null rehearses on a throw-away one
     * @param scratchDir a directory for this rehearsal alone; made when missing, removed by {@link #close()}
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
        Mode parsed;
        try {
            parsed = Mode.valueOf(mode.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("rehearsal mode is '" + mode + "'. Give live, synthetic, plan or off", e);
        }
        Dataset<?> data = (Dataset<?>) SparkInternals.get(writer, "ds");
        Map<String, String> settings = new HashMap<>(sqlConf);
        settings.values().removeIf(Objects::isNull);
        RehearsalLogFilter.install();
        return new Rehearsal(writer, data, settings, checkpointRootOrNull, new Path(scratchDir), parsed);
    }

    /**
     * One round, synchronously.
     *
     * @return {@code {"how":"live"|"synthetic"|"throwaway"|"plan"|"off","batch":N,"seconds":S,"rows":R}}; batch is -1 when none was run
     * @throws CancellationException once {@link #cancel()} was called, also in the middle of a round
     * @throws IllegalStateException when the batch could not be run; its message says why, and whether the next round may succeed
     */
    public synchronized String round() {
        CompletableFuture<String> round = new CompletableFuture<>();
        current = round;
        if (cancelled) { // looked at after `current` is set: whichever comes second sees the other
            throw new CancellationException("the rehearsal was cancelled");
        }
        if (mode == Mode.OFF) {
            return json("off", -1, 0, new Result(false, false, 0));
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
            throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
        } finally {
            current = null;
        }
    }

    /** Bytes of the files that all rounds until now were given to read again, failed ones too; a throw-away checkpoint's are not known. */
    public long bytesRead() {
        return bytesRead;
    }

    /** Ends the rehearsal at once and for good. Never waits; what is left of a round is cleared away in the background. */
    public void cancel() {
        cancelled = true;
        CompletableFuture<String> round = current;
        if (round != null) {
            round.completeExceptionally(new CancellationException("the rehearsal was cancelled"));
        }
        StreamExecution query = running;
        if (query != null) {
            RehearsalLogFilter.cancelled(name);
            Thread thread = new Thread(() -> stop(query), name + "-cancel");
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Cancels the query's jobs, interrupts its thread, and waits for it to end. */
    private static void stop(StreamExecution query) {
        try {
            query.stop();
        } catch (java.util.concurrent.TimeoutException e) {
            throw new IllegalStateException("the rehearsal's query does not stop; it is left to end by itself", e);
        }
    }

    /** Cancels, and removes scratch; while a round is still ending, that round does it. */
    public void close() {
        cancel();
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
            throw new IllegalStateException("scratch " + scratch + " could not be removed. Remove it by hand", e);
        }
    }

    // ---- a round, in its own thread ----------------------------------------------------------------------------------------------

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
        if (checkpointRoot != null && mode != Mode.PLAN) {
            Path root = new Path(checkpointRoot);
            FileSystem fs = CachingCheckpointFileSystem.of(root, conf);
            past = ReplayableBatch.find(fs, fs.makeQualified(root));
        }
        Sources.Rows rows = mode == Mode.PLAN ? Sources.Rows.NONE : mode == Mode.SYNTHETIC ? Sources.Rows.GENERATED : Sources.Rows.REAL;
        Result result = act(past, rows, conf);
        if (!result.ran() && rows == Sources.Rows.REAL) { // a throw-away checkpoint, and no input yet
            result = act(past, Sources.Rows.GENERATED, conf);
        }
        if (!result.ran()) {
            throw new IllegalStateException("the query ended without running a batch" + (past == null ? "" : " from " + past.root()));
        }
        String how = mode == Mode.PLAN ? "plan" : result.generated() ? "synthetic" : past == null ? "throwaway" : "live";
        return json(how, past == null ? 0 : past.batch(), (System.nanoTime() - began) / 1e9, result);
    }

    private record Result(boolean ran, boolean generated, long rows) {}

    private Result act(ReplayableBatch past, Sources.Rows rows, Configuration conf) throws Exception {
        FileSystem scratchFs = scratch.getFileSystem(conf);
        Path mine = scratchFs.makeQualified(new Path(scratch, "round-" + rounds++));
        FileSystem raw = scratchFs instanceof LocalFileSystem local ? local.getRaw() : scratchFs;
        boolean shared = !session.sparkContext().isLocal();
        if (shared && scratchFs instanceof LocalFileSystem && !session.sparkContext().master().startsWith("local-cluster")) {
            throw new IllegalStateException(
                    "executors run elsewhere, and scratch is on this machine's disk (" + scratch + "). Give --scratch a place that all of"
                            + " them reach, for example s3a://bucket/scratch, and let the bucket expire what is left there");
        }
        Overlay overlay = Overlay.open(past, mine, scratchFs, shared);
        try (DeltaScratch delta = new DeltaScratch(session, scratchFs.makeQualified(scratch), mine, rounds <= MERGES)) {
            Sources.Rewritten rewritten = Sources.rewrite(plan, session, past, rows);
            bytesRead += rewritten.bytes();
            Dataset<Row> data = Dataset.ofRows(session, rewritten.plan());
            DataStreamWriter<Row> writer = Sinks.writer(user, data, name, overlay.root(), mine, delta);
            return run(writer, overlay, past, rewritten);
        } finally {
            overlay.close();
            raw.delete(mine, true);
        }
    }

    private Result run(DataStreamWriter<Row> writer, Overlay overlay, ReplayableBatch past, Sources.Rewritten sources) throws Exception {
        StreamingQuery started = writer.start();
        StreamExecution query = ((StreamingQueryWrapper) started).streamingQuery();
        String run = query.runId().toString();
        RehearsalLogFilter.begin(run);
        running = query;
        try {
            if (!cancelled) { // looked at after `running` is set
                watch(query, overlay);
            }
        } finally {
            if (cancelled || !ended(query, overlay)) {
                stop(query);
            }
            running = null;
            clear(query);
            RehearsalLogFilter.end(run);
        }
        if (cancelled) {
            throw new CancellationException("the rehearsal was cancelled");
        }
        if (query.exception().isDefined() && !overlay.batchCommitted()) {
            throw failed(query.exception().get(), overlay, past);
        }
        StreamingQueryProgress progress = query.lastProgress();
        long rows = progress == null ? 0 : progress.numInputRows();
        return new Result(overlay.batchCommitted(), sources.generated(), rows);
    }

    /**
     * Ends the query the way its own triggers end it. {@code stop()} would do, but warns twice that there are no jobs left to cancel.
     *
     * @return whether it has ended
     */
    private static boolean ended(StreamExecution query, Overlay overlay) throws InterruptedException {
        @SuppressWarnings("unchecked")
        AtomicReference<Object> state = (AtomicReference<Object>) SparkInternals.call(query, "state");
        state.set(TERMINATED$.MODULE$);
        overlay.release();
        query.queryExecutionThread().join(END_MILLIS);
        return !query.queryExecutionThread().isAlive();
    }

    /** Returns once the batch is committed in scratch and the query has looked for more, or has found nothing to read, or has ended. */
    private void watch(StreamExecution query, Overlay overlay) throws InterruptedException {
        long committedAt = 0;
        while (query.isActive() && !cancelled && !overlay.wentOn()) {
            if (overlay.batchCommitted()) {
                long now = System.nanoTime();
                committedAt = committedAt == 0 ? now : committedAt;
                if (idle(query) || now - committedAt > LOOK_FOR_MORE_NANOS) {
                    return;
                }
            } else if (!overlay.batchStarted() && idle(query)) {
                return;
            }
            Thread.sleep(POLL_MILLIS);
        }
    }

    private static boolean idle(StreamExecution query) {
        String message = query.status().message();
        return message.equals("Waiting for data to arrive") || message.equals("Waiting for next trigger");
    }

    private void clear(StreamExecution query) throws InterruptedException {
        boolean orderly = !cancelled && query.exception().isEmpty();
        if (orderly || StateStoreCleanup.tasksEnd(session.sparkContext(), query.runId().toString())) {
            StateStoreCleanup.unloadStateStores(query.runId());
        }
        RehearsalSession.silence(query.sparkSessionForStream());
        RehearsalSession.silence(session);
    }

    private static IllegalStateException failed(Throwable cause, Overlay overlay, ReplayableBatch past) {
        if (past != null && past.leftBehind()) {
            return new IllegalStateException(
                    "the leader went on while batch " + past.batch() + " was rehearsed and may have purged what it needs. "
                            + "The next round takes a newer one",
                    cause);
        }
        return new IllegalStateException(
                "batch " + overlay.batch() + " could not be rehearsed" + (past == null ? "" : " from " + past.root()) + ": " + cause, cause);
    }

    private static String json(String how, long batch, double seconds, Result result) {
        String form = "{\"how\":\"%s\",\"batch\":%d,\"seconds\":%.3f,\"rows\":%d}";
        return String.format(Locale.ROOT, form, how, batch, seconds, result.rows());
    }
}
