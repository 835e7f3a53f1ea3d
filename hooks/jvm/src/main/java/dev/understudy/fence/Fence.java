package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;

/**
 * The fence of one driver JVM, called from the driver's Python: attach it to the gate, claim roots, hold batches.
 *
 * <p>Everything that writes asks {@link #admit} first. It returns only when the gate is open and the root's claim is
 * ours; it waits while the gate is closed or a standby's, and throws {@link LeadershipLostException} when waiting is over.
 */
public final class Fence {
    private static final long GATE_POLL_MILLIS = 3;
    private static final long LOOK_LOCAL_NANOS = 10_000_000;
    private static final long LOOK_REMOTE_NANOS = 500_000_000;
    private static final long DEFAULT_WRITE_TIMEOUT_MILLIS = 4_000;

    private static volatile Attached attached;
    private static final Object HOLD = new Object();
    private static boolean held;

    private record Attached(
            List<String> arguments,
            Gate gate,
            String holder,
            String cluster,
            String job,
            String lock,
            FenceLog log,
            long writeTimeoutMillis,
            ClaimRegistry roots) {
        Claim claim(long token) {
            return new Claim(token, holder, cluster, job, lock);
        }

        void refused(long token, String op, String path, String reason) {
            log.say(token, holder, op, path, FenceLog.REFUSED, reason);
        }
    }

    private Fence() {}

    /**
     * Maps the gate and starts the halting thread. Attaching again with the same arguments does nothing; with others it is
     * an error, because a gate file belongs to one driver process and is never reused.
     */
    public static synchronized void attach(
            String gatePath,
            String holder,
            String cluster,
            String job,
            String lockKind,
            String logPath,
            long writeTimeoutMillis)
            throws IOException {
        List<String> arguments =
                List.of(gatePath, holder, cluster, job, lockKind, logPath, Long.toString(writeTimeoutMillis));
        if (attached != null) {
            if (!attached.arguments.equals(arguments)) {
                throw new IllegalStateException("already attached with other arguments: " + attached.arguments);
            }
            return;
        }
        Gate gate = Gate.map(gatePath);
        FenceLog log = new FenceLog(logPath, Counters.map(Counters.of(gate.path())));
        HaltingThread halting = new HaltingThread(gate, holder, log);
        attached = new Attached(
                arguments, gate, holder, cluster, job, lockKind, log, writeTimeoutMillis, new ClaimRegistry());
        halting.start();
    }

    /** This JVM's clocks, {boottime, monotonic} in nanoseconds; the caller compares them with its own. */
    public static long[] clocks() {
        Gate.Now now = Gate.Now.read();
        return new long[] {now.boottime(), now.monotonic()};
    }

    /**
     * Claims {@code root} with the gate's token. JSON: {@code outcome} claimed, repeat or refused; {@code reason};
     * {@code token} and {@code holder} as they stand there. Waits for the gate as every write does.
     *
     * <p>{@code conf} is the session's. Where Spark would find another checkpoint manager in it than the fence, nothing is
     * claimed: a claim would be a promise that this process is about to break.
     */
    public static String claim(String root, Configuration conf) throws IOException {
        return claim(root, conf, Claims.UNRECORDED);
    }

    /** As above, for a root that this job has claimed under the token {@code recorded} before: -1 if it never has. */
    public static String claim(String root, Configuration conf, long recorded) throws IOException {
        String manager = conf.get(FenceSettings.MANAGER);
        if (!FenceSettings.OUR_MANAGER.equals(manager)) {
            throw new IllegalStateException("no claim of " + root + ": " + FenceSettings.MANAGER + " is " + manager
                    + ", and what the session writes there would not pass the fence");
        }
        Attached me = require("claim", root);
        Path path = new Path(root);
        FileSystem files = path.getFileSystem(conf);
        ClaimPatience patience = new ClaimPatience(me.writeTimeoutMillis);
        ClaimedDirectory claimed = named(me, files, path, conf, patience);
        if (!claimed.claimable()) {
            throw new IOException(root + ": no claim is possible on " + files.getScheme()
                    + "://, which has neither link(2) nor conditional PUT. Use a local disk or s3a://");
        }
        while (true) {
            Gate.View view = patience.uncounted(() -> awaitOpen(me, claimed, "claim", claimed.key));
            Claims.Outcome outcome;
            try {
                outcome = attempt(me, claimed, view.token(), recorded);
            } catch (IOException e) {
                patience.pause(e);
                continue;
            }
            if (outcome.verdict() != Claims.Verdict.GATE) {
                return outcome.json();
            }
        }
    }

    /** Where no standby has prepared it, this asks the store for the first time. */
    private static ClaimedDirectory named(Attached me, FileSystem files, Path path, Configuration conf, ClaimPatience patience)
            throws IOException {
        while (true) {
            try {
                return me.roots.named(files, path, conf);
            } catch (IOException e) {
                patience.pause(e);
            }
        }
    }

    /** For a standby: makes ready what {@link #claim} will need of {@code root}. Changes nothing that anybody reads. */
    public static void prepare(String root, Configuration conf) throws IOException {
        Path path = new Path(root);
        FileSystem files = path.getFileSystem(conf);
        require("prepare", root).roots.named(files, path, conf).prepare();
    }

    /** Lets go of what is known of {@code root}: the queries that used it have ended. Its claim stays. */
    public static void forget(String root, Configuration conf) throws IOException {
        Path path = new Path(root);
        require("forget", root).roots.forget(ClaimRegistry.key(path.getFileSystem(conf), path));
    }

    /** JSON of why no driver can work here: {@code kind} (foreign, unfit), {@code where}, {@code what}; empty if one can. */
    public static String refusal() {
        return Refusal.noted();
    }

    private static Claims.Outcome attempt(Attached me, ClaimedDirectory root, long token, long recorded) throws IOException {
        Claims.Outcome outcome = root.claim(me.claim(token), recorded, () -> isOpen(me.gate.read(), token));
        if (outcome.verdict().refused()) {
            me.refused(token, "claim", root.key, outcome.verdict().reason);
            Refusal.noteForeign(root.key, outcome);
        } else if (outcome.verdict() == Claims.Verdict.CLAIMED) {
            me.log.say(token, me.holder, "claim", root.key, FenceLog.ACCEPTED, "");
        }
        return outcome;
    }

    /**
     * Holds new batches, and waits until no claimed root has one in flight. False after {@code timeoutMillis}; the hold
     * stays either way, until {@link #resume}. A batch whose query has failed counts as in flight until it is run again.
     */
    public static boolean quiesce(long timeoutMillis) throws InterruptedException {
        Attached me = attached;
        if (me == null) {
            throw new IllegalStateException("no gate is attached");
        }
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMillis);
        synchronized (HOLD) {
            held = true;
            while (me.roots.anyInFlight()) {
                long left = end - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                HOLD.wait(Math.max(1, Math.min(20, TimeUnit.NANOSECONDS.toMillis(left))));
            }
            return true;
        }
    }

    /** Lets batches begin again. */
    public static void resume() {
        synchronized (HOLD) {
            held = false;
            HOLD.notifyAll();
        }
    }

    /** JSON for status pages and tests: the gate as read now, the claimed roots, what is in flight, counters. */
    public static String state() throws IOException {
        ObjectNode json = Claim.JSON.createObjectNode();
        Attached me = attached;
        json.put("attached", me != null);
        if (me == null) {
            return json.toString();
        }
        me.gate.describe(json.putObject("gate"));
        json.put("holder", me.holder).put("activity", me.gate.activity().running());
        synchronized (HOLD) {
            json.put("held", held);
        }
        me.roots.describe(json.putArray("roots"));
        for (String outcome : List.of(FenceLog.ACCEPTED, FenceLog.REFUSED, FenceLog.UNKNOWN)) {
            json.put(outcome, me.log.counted(outcome));
        }
        return json.toString();
    }

    // ---- for the writers of this package ----

    /** {@code root}, whose batches count in the activity page from now on; see {@link UngatedSinks}. */
    static void countBatches(String root, Configuration conf, boolean always) throws IOException {
        Attached me = require("count", root);
        Path path = new Path(root);
        me.roots.named(path.getFileSystem(conf), path, conf).inFlight.ungated(me.gate.activity(), always);
    }

    /** Executors hold no lease: what they write is published by the driver, or ignored. */
    static boolean onDriver() {
        SparkEnv env = SparkEnv.get();
        return env == null || env.executorId().equals("driver");
    }

    static long writeTimeoutMillis() {
        Attached me = attached;
        return me == null ? DEFAULT_WRITE_TIMEOUT_MILLIS : me.writeTimeoutMillis;
    }

    /** The claimed root above {@code path}, or the one its place suggests; see {@link ClaimRegistry}. Driver only. */
    static ClaimedDirectory rootOf(FileSystem files, Path path, Configuration conf, boolean sink) throws IOException {
        return require("create", path.toString()).roots.above(files, path, conf, sink);
    }

    /** The root of what a batch writes to {@code path}; see {@link ClaimRegistry#output}. Driver only. */
    static ClaimedDirectory outputOf(FileSystem files, Path path, Configuration conf) throws IOException {
        Attached me = require("write", path.toString());
        return me.roots.output(files, path, conf, me.cluster, me.job);
    }

    /**
     * Returns when this process may do {@code op} on {@code path} now: gate open, and with {@code readClaim} the claim read
     * and ours; always true. The gate is asked last, so a freeze while the claim is read is seen.
     */
    static boolean admit(ClaimedDirectory root, String op, String path, boolean readClaim) throws IOException {
        Attached me = require(op, path);
        Retries retries = Retries.ofRepeatable();
        while (true) {
            Gate.View view = retries.uncounted(() -> awaitOpen(me, root, op, path));
            if (root.claimable()) {
                Claims.Verdict verdict;
                try {
                    verdict = standing(me, root, view.token(), readClaim);
                } catch (IOException e) {
                    retries.pause(e);
                    continue;
                }
                if (verdict.refused()) {
                    throw refuse(me, view.token(), op, path, reasonAtWrite(verdict));
                }
                if (!verdict.ours()) {
                    continue;
                }
            }
            if (isOpen(me.gate.read(), view.token())) {
                root.admitted(view.token());
                return true;
            }
        }
    }

    private static Claims.Verdict standing(Attached me, ClaimedDirectory root, long token, boolean readClaim) throws IOException {
        boolean ours = root.token() == token && (!readClaim || root.stands(token));
        // no claim yet, a new token in the page, or something else stands: claiming tells which
        return ours ? Claims.Verdict.REPEAT : attempt(me, root, token, Claims.UNRECORDED).verdict();
    }

    /** Like {@link #admit} for the offsets of a batch; waits while batches are held and then marks it in flight. */
    static void admitBatch(ClaimedDirectory root, long batch, String path, boolean readClaim) throws IOException {
        while (true) {
            admit(root, "create", path, readClaim);
            synchronized (HOLD) {
                if (!held) {
                    root.inFlight.began(batch);
                    return;
                }
                try {
                    HOLD.wait(20); // short: a gate revoked meanwhile must end this wait
                } catch (InterruptedException e) {
                    throw interrupted(path);
                }
            }
        }
    }

    static void batchEnded(ClaimedDirectory root, long batch) {
        root.inFlight.ended(batch);
        synchronized (HOLD) {
            HOLD.notifyAll();
        }
    }

    static void landed(ClaimedDirectory root, String op, String path) {
        say(root, op, path, FenceLog.ACCEPTED, "");
    }

    static void say(ClaimedDirectory root, String op, String path, String outcome, String reason) {
        Attached me = attached;
        if (me == null || !(root.claimable() || root.remote())) { // a temporary checkpoint is of no interest to anybody
            return;
        }
        if (outcome.equals(FenceLog.ACCEPTED) && path.startsWith(root.key + "/state/")) {
            me.log.count(root.admittedToken(), op, path, outcome); // several a batch and partition: nobody reads of them
        } else {
            me.log.say(root.admittedToken(), me.holder, op, path, outcome, reason);
        }
    }

    private static Attached require(String op, String path) {
        Attached me = attached;
        if (me == null) {
            throw new LeadershipLostException(op + " of " + path + " refused: no gate is attached to this driver");
        }
        return me;
    }

    private static boolean isOpen(Gate.View view, long token) {
        return view != null && view.token() == token && view.stateAt(Gate.Now.read()) == Gate.State.OPEN;
    }

    /** Waits for an open gate. A closed one is waited for until the park deadline, a standby's without limit. */
    private static Gate.View awaitOpen(Attached me, ClaimedDirectory root, String op, String path) throws IOException {
        long nextLook = System.nanoTime();
        long lastToken = Math.max(0, root.token());
        Gate.View last = null;
        while (true) {
            Gate.View view = me.gate.read();
            Gate.Now now = Gate.Now.read();
            if (view != null) {
                last = view;
                lastToken = view.token();
            }
            Gate.State state = view == null ? Gate.State.CLOSED : view.stateAt(now);
            switch (state) {
                case OPEN -> {
                    return view;
                }
                case REVOKED -> throw refuse(me, lastToken, op, path, "revoked");
                case CLOSED -> {
                    if (System.nanoTime() >= nextLook) {
                        // whoever leads now has claimed the root: no need to wait for the supervisor to say so
                        Claims.Verdict objection = objection(root, me.claim(lastToken));
                        if (objection != null) {
                            throw refuse(me, lastToken, op, path, reasonAtWrite(objection));
                        }
                        nextLook = System.nanoTime() + (root.remote() ? LOOK_REMOTE_NANOS : LOOK_LOCAL_NANOS);
                    }
                    if (last != null && last.state() != Gate.State.STANDBY && last.parkDue(now)) {
                        throw refuse(me, lastToken, op, path, "park-deadline");
                    }
                }
                case STANDBY -> {}
            }
            pause(GATE_POLL_MILLIS, path);
        }
    }

    private static Claims.Verdict objection(ClaimedDirectory root, Claim mine) {
        try {
            return root.objection(mine);
        } catch (IOException e) {
            return null; // the gate is closed anyway, and nothing is written on the strength of this
        }
    }

    private static String reasonAtWrite(Claims.Verdict verdict) {
        return verdict == Claims.Verdict.HIGHER_TOKEN ? "higher-claim" : verdict.reason;
    }

    private static LeadershipLostException refuse(Attached me, long token, String op, String path, String reason) {
        me.refused(token, op, path, reason);
        return new LeadershipLostException(op + " of " + path + " refused: " + Refusal.words(reason) + " (token " + (token >> 32) + "."
                + (token & 0xffffffffL) + ", holder " + me.holder + ")");
    }

    private static void pause(long millis, String path) throws InterruptedIOException {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw interrupted(path);
        }
    }

    private static InterruptedIOException interrupted(String path) {
        Thread.currentThread().interrupt();
        return new InterruptedIOException("interrupted while waiting for the gate before writing " + path);
    }
}
