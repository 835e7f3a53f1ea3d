package dev.understudy.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;

/** A checkpoint or sink directory: its claim, and which batch of it is in flight. */
final class ClaimedDirectory {
    private static final long NO_BATCH = BatchInFlight.NONE;

    final String key;
    /** Null where the file system has no compare-and-set: such a root has the gate only. */
    private final ClaimStore store;

    private final boolean remote;
    private final FileSystem files;
    private volatile ClaimStore.Standing ours;
    private volatile ClaimStore.Standing prepared;
    final BatchInFlight inFlight = new BatchInFlight(this::pendingBatch);
    private volatile boolean takenOver;
    private volatile long admitted = -1;
    private final Set<String> cleared = Collections.newSetFromMap(new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
            return size() > 256; // a sink may have a directory per batch
        }
    });

    private final boolean output;

    private ClaimedDirectory(String key, ClaimStore store, boolean remote, FileSystem files, boolean output) {
        this.output = output;
        this.key = key;
        this.store = store;
        this.remote = remote;
        this.files = files;
    }

    static ClaimedDirectory of(String key, FileSystem files, Configuration conf) throws IOException {
        if (LocalFiles.isLocal(files)) {
            return new ClaimedDirectory(key, new LocalClaims(Path.of(key)), false, files, false);
        }
        org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(key);
        boolean conditional = ObjectStore.isConditional(files, path);
        ClaimStore store = conditional ? new ObjectClaims(ObjectStore.writer(path, conf), path) : null;
        return new ClaimedDirectory(key, store, true, files, false);
    }

    /** Whether batch writers have it as their output: without a log of batches, and claimed for this job alone. */
    boolean output() {
        return output;
    }

    /** A directory of this process alone: its writes wait for the gate, and nobody else counts them. */
    static ClaimedDirectory unclaimed(String key, FileSystem files) {
        return new ClaimedDirectory(key, null, false, files, false);
    }

    /** The directory that batches of a job write to: see {@link OutputClaims}. */
    static ClaimedDirectory ofOutput(String key, FileSystem files, Configuration conf, String cluster, String job)
            throws IOException {
        org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(key);
        OutputClaims.Streams streams = () -> files.exists(new org.apache.hadoop.fs.Path(path, "_spark_metadata"));
        String directory = OutputClaims.directory(cluster, job);
        if (LocalFiles.isLocal(files)) {
            Path local = Path.of(key);
            ClaimStore ours = new LocalClaims(local, directory);
            ClaimStore store = new OutputClaims(new LocalClaims(local), ours, true, cluster, job, streams);
            return new ClaimedDirectory(key, store, false, files, true);
        }
        if (!ObjectStore.isConditional(files, path)) {
            return new ClaimedDirectory(key, null, true, files, true);
        }
        FileSystem writer = ObjectStore.writer(path, conf);
        ClaimStore ours = new ObjectClaims(writer, path, directory);
        ClaimStore whole = new ObjectClaims(writer, path);
        return new ClaimedDirectory(key, new OutputClaims(whole, ours, false, cluster, job, streams), true, files, true);
    }

    boolean claimable() {
        return store != null;
    }

    /** Whether a look at the claim is a request over the network. */
    boolean remote() {
        return remote;
    }

    /**
     * Whether a predecessor may have left unfinished work in {@code path}: the claim that we replaced was another token's,
     * and this is the first time we ask.
     */
    boolean mayHoldLeftovers(String path) {
        synchronized (cleared) {
            return takenOver && cleared.add(path);
        }
    }

    void admitted(long token) {
        admitted = token;
    }

    /** The token of the last write that was let through, for the log. */
    long admittedToken() {
        return admitted;
    }

    /** The token of our claim, or -1. */
    long token() {
        ClaimStore.Standing seen = ours;
        return seen == null ? -1 : seen.claim().token();
    }

    /** Claims for {@code mine}; repeated calls are cheap to get wrong, so each one reads what stands. */
    synchronized Claims.Outcome claim(Claim mine, long recorded, BooleanSupplier gateOpen) throws IOException {
        store.requireConditions();
        // what was found before our first claim says nothing about what stands after it
        Claims.Outcome outcome = Claims.claim(store, ours == null ? prepared : null, mine, recorded, gateOpen);
        if (outcome.verdict().ours()) {
            if (!remote) {
                Staging.deleteOthers(Path.of(key)); // before any write of ours; again after a claim that failed here
            }
            boolean claimed = outcome.verdict() == Claims.Verdict.CLAIMED;
            // a repeat of what was never seen to land: its answer was lost, and with it what stood there before
            boolean unseen = ours == null || ours.claim().token() != mine.token();
            ours = outcome.standing();
            if (claimed || unseen) {
                synchronized (cleared) {
                    takenOver = outcome.followed() || !claimed;
                    cleared.clear();
                }
                if (!output) {
                    inFlight.unknown();
                }
            }
        }
        return outcome;
    }

    /** Opens what a claim will need: clients, connections, their code. Changes nothing that anybody reads. */
    void prepare() throws IOException {
        if (store != null) {
            prepared = store.prepare();
        }
    }

    /** Whether this token still is the claim. False asks for another {@link #claim}, which says why. */
    boolean stands(long token) throws IOException {
        ClaimStore.Standing seen = ours;
        return seen != null && seen.claim().token() == token && store.stands(seen);
    }

    /** For a closed gate: what another process's claim says against us, or null. Reads only. */
    Claims.Verdict objection(Claim mine) throws IOException {
        if (store == null || ours == null || store.stands(ours)) {
            return null;
        }
        Claims.Verdict verdict = Claims.judge(store.read(), mine);
        return verdict.refused() ? verdict : null;
    }

    /** A batch whose offsets are logged and whose commit is not: the predecessor's, to be run again. */
    private long pendingBatch() throws IOException {
        long offsets = highest("offsets");
        return offsets != NO_BATCH && offsets > highest("commits") ? offsets : NO_BATCH;
    }

    private long highest(String log) throws IOException {
        long highest = NO_BATCH;
        try {
            for (FileStatus status : LocalFiles.isLocal(files)
                    ? LocalFiles.list(files, new org.apache.hadoop.fs.Path(key, log), path -> true)
                    : files.listStatus(new org.apache.hadoop.fs.Path(key, log))) {
                highest = Math.max(highest, number(status.getPath().getName()));
            }
        } catch (FileNotFoundException e) {
            return NO_BATCH;
        }
        return highest;
    }

    static long number(String name) {
        try {
            return Long.parseLong(name);
        } catch (NumberFormatException e) {
            return NO_BATCH;
        }
    }
}
