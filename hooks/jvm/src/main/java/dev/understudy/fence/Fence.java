package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/** What the driver's Python calls, through Py4J: a thin facade of the one {@link FenceSession}. */
public final class Fence {
  private Fence() {}

  /**
   * Maps the gate and starts the halting thread. Attaching again with the same arguments does
   * nothing.
   *
   * @param formerLocks JSON: kinds of lock that this job was moved away from, each with the highest
   *     epoch it granted
   * @throws IllegalStateException if the arguments are others, because a gate file belongs to one
   *     driver process and is never reused
   */
  public static void attach(
      String gatePath,
      String holder,
      String cluster,
      String job,
      String lockKind,
      String formerLocks,
      String logPath,
      long writeTimeoutMillis)
      throws IOException {
    Identity identity =
        new Identity(holder, cluster, job, lockKind, FormerLocks.parse(formerLocks));
    AttachedSession.attach(
        new FenceSession.Settings(gatePath, identity, logPath, writeTimeoutMillis));
  }

  /**
   * Returns this JVM's clocks, {boottime, monotonic} in ns; the caller compares them with its own.
   */
  public static long[] clocks() {
    Moment now = Moment.now();
    return new long[] {now.boottime(), now.monotonic()};
  }

  /**
   * As {@link #claim(String, Configuration, long, long)}, for a root that this job has never
   * claimed.
   */
  public static String claim(String root, Configuration conf) throws IOException {
    return claim(root, conf, Claims.UNRECORDED, BatchInFlight.NONE);
  }

  /**
   * Claims {@code root} with the gate's token. Waits for the gate as every write does.
   *
   * @param conf the session's. Where Spark would find another checkpoint manager in it than the
   *     fence, nothing is claimed: a claim would be a promise that this process is about to break
   * @param recorded the token under which this job has claimed the root before; -1 if it never has
   * @param committed a batch that this job has committed there; -1 if it is not known. A query that
   *     finds less is refused before it runs a batch
   * @return JSON: {@code outcome} claimed, repeat or refused; {@code reason}; {@code token} and
   *     {@code holder} as they stand there
   */
  public static String claim(String root, Configuration conf, long recorded, long committed)
      throws IOException {
    String manager = conf.get(FenceSettings.MANAGER);
    if (!FenceSettings.OUR_MANAGER.equals(manager)) {
      throw new IllegalStateException(
          "no claim of "
              + root
              + ": "
              + FenceSettings.MANAGER
              + " is "
              + manager
              + ", and what the session writes there would not pass the fence");
    }
    return AttachedSession.require("claim", root).claim(root, conf, recorded, committed).json();
  }

  /**
   * For a standby: makes ready what {@link #claim} will need of {@code root}. Changes nothing that
   * another process reads.
   */
  public static void prepare(String root, Configuration conf) throws IOException {
    AttachedSession.require("prepare", root).prepare(root, conf);
  }

  /** Forgets {@code root}: the queries that used it have ended. Its claim stays. */
  public static void forget(String root, Configuration conf) throws IOException {
    AttachedSession.require("forget", root).forget(root, conf);
  }

  /**
   * Returns JSON of why no driver can work here: {@code kind} (foreign, unfit), {@code where},
   * {@code what}; an empty string if one can.
   */
  public static String refusal() {
    FenceSession session = AttachedSession.orNull();
    return session == null ? "" : session.refusal();
  }

  /** Holds new batches, until {@link #resume}. Waits for none. */
  public static void hold() {
    AttachedSession.require("hold", "batches").hold();
  }

  /**
   * Waits until no claimed root has a batch in flight; {@link #hold} comes before. A batch whose
   * query has failed counts as in flight until it is run again.
   *
   * @return false if a batch still is in flight after {@code timeoutMillis}
   */
  public static boolean awaitQuiet(long timeoutMillis) throws InterruptedException {
    return AttachedSession.require("wait", "batches").awaitQuiet(timeoutMillis);
  }

  /** Lets batches begin again. */
  public static void resume() {
    FenceSession session = AttachedSession.orNull();
    if (session != null) {
      session.resume();
    }
  }

  /** For a takeover of {@code queries}: when each may begin; null if all may at once. */
  public static StartPace startPace(int queries) {
    return AttachedSession.require("start", "queries").startPace(queries);
  }

  /** The code of a first batch waits for queries that have not begun: all may begin at once. */
  public static void letAllBegin() {
    AttachedSession.require("start", "queries").letAllBegin();
  }

  /**
   * Returns the batch that drains the query of checkpoint {@code root}, if that is the last one its
   * offsets have; else -1.
   */
  public static long drainedBy(String root, Configuration conf) throws IOException {
    return new DrainEntry(root, conf).find();
  }

  /**
   * Appends the entry that drains the query of checkpoint {@code root}, unless it is there. Batches
   * must be held, and the query must not run; the next start of it runs that one batch.
   *
   * @return its batch; -1 for a query that has never run one, which has nothing to drain
   * @throws IOException if a batch is in flight
   */
  public static long drain(String root, Configuration conf) throws IOException {
    return new DrainEntry(root, conf).appendOnce();
  }

  /**
   * Returns JSON for status pages and tests: the gate as read now, the claimed roots, what is in
   * flight, counters.
   */
  public static String state() throws IOException {
    FenceSession session = AttachedSession.orNull();
    ObjectNode json = Claim.JSON.createObjectNode();
    json.put("attached", session != null);
    if (session != null) {
      session.describe(json);
    }
    return json.toString();
  }
}
