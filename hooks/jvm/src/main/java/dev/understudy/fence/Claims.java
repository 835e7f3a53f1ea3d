package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.function.BooleanSupplier;

/** Decides about claims: who yields to whom, and when a compare-and-set has been won. */
final class Claims {
  private static final int ATTEMPTS = 100;

  private Claims() {}

  enum Verdict {
    CLAIMED("claimed", ""),
    REPEAT("repeat", ""),
    /**
     * Nothing or a lower token of ours stands: it may be replaced. Never the outcome of {@link
     * #claim}.
     */
    REPLACEABLE("replaceable", ""),
    /** The gate closed on the way; nothing was decided. */
    GATE("gate", ""),
    HIGHER_TOKEN("refused", "higher-token"),
    OTHER_HOLDER("refused", "other-holder"),
    OTHER_CLUSTER("refused", "other-cluster"),
    OTHER_JOB("refused", "other-job"),
    OTHER_LOCK("refused", "other-lock"),
    UNREADABLE("refused", "unreadable"),
    /** The job has claimed this root before, and no claim stands there. */
    MISSING("refused", "missing-claim"),
    /**
     * The claim that stands is lower than one the job has had here: the root was restored from a
     * copy.
     */
    BEHIND("refused", "behind-record");

    final String outcome;
    final String reason;

    Verdict(String outcome, String reason) {
      this.outcome = outcome;
      this.reason = reason;
    }

    boolean refused() {
      return !reason.isEmpty();
    }

    /** It belongs to another job, cluster or kind of lock: no token of ours will ever do. */
    boolean foreign() {
      return this == OTHER_CLUSTER || this == OTHER_JOB || this == OTHER_LOCK;
    }

    boolean ours() {
      return this == CLAIMED || this == REPEAT;
    }
  }

  /** {@code followed}: there was a claim before ours. */
  record Outcome(Verdict verdict, ClaimStore.Standing standing, boolean followed) {
    String json() {
      Claim there = standing.claim();
      ObjectNode json = Claim.JSON.createObjectNode();
      json.put("outcome", verdict.outcome).put("reason", verdict.reason);
      json.put("token", there == null ? 0 : there.token());
      json.put("holder", there == null ? "" : there.holder());
      json.put("cluster", there == null ? "" : there.cluster());
      json.put("job", there == null ? "" : there.job());
      json.put("lock", there == null ? "" : there.lock());
      return json.toString();
    }
  }

  /** For a root of which the job's document says nothing. */
  static final long UNRECORDED = -1;

  /**
   * As {@link #judge}, for a root that the job has claimed under token {@code recorded} before, as
   * its document says. Claims are never removed and never become lower, so what has none, or a
   * lower one, is not what was left there.
   */
  static Verdict judge(
      ClaimStore.Standing standing, Claim mine, FormerLocks former, long recorded) {
    Verdict verdict = judge(standing, mine, former);
    if (verdict != Verdict.REPLACEABLE || recorded == UNRECORDED) {
      return verdict;
    }
    if (standing.nothing()) {
      return Verdict.MISSING;
    }
    return standing.claim().token() < recorded ? Verdict.BEHIND : verdict;
  }

  /** The pure part: what {@code mine} may do about what stands. */
  static Verdict judge(ClaimStore.Standing standing, Claim mine, FormerLocks former) {
    if (standing.nothing()) {
      return Verdict.REPLACEABLE;
    }
    Claim there = standing.claim();
    if (there == null) {
      return Verdict.UNREADABLE;
    }
    if (!there.cluster().equals(mine.cluster())) {
      return Verdict.OTHER_CLUSTER;
    }
    if (!there.job().equals(mine.job())) {
      return Verdict.OTHER_JOB;
    }
    if (!sameLock(there.lock(), mine.lock()) && !former.cover(there)) {
      return Verdict.OTHER_LOCK;
    }
    if (there.token() > mine.token()) {
      return Verdict.HIGHER_TOKEN;
    }
    if (there.token() < mine.token()) {
      return Verdict.REPLACEABLE;
    }
    return there.holder().equals(mine.holder()) ? Verdict.REPEAT : Verdict.OTHER_HOLDER;
  }

  private static boolean sameLock(String there, String mine) {
    return there.equals(mine)
        || (isClusterLock(there) && isClusterLock(mine) && (covers(there) || covers(mine)));
  }

  private static boolean covers(String lock) {
    // holds both of the cluster's locks, so its tokens are above those of either
    return lock.equals("multi");
  }

  private static boolean isClusterLock(String lock) {
    return lock.equals("multi") || lock.equals("lease") || lock.equals("configmap");
  }

  /**
   * Claims, or says why not. Won only when a read shows (token, holder) to be ours, so neither a
   * lost answer nor a look-alike is mistaken for a win. {@code gateOpen} is asked before every
   * attempt to write. {@code guess} is what may stand there, or null: it may only be replaced,
   * which fails if it is wrong; all else is decided by what is read.
   */
  static Outcome claim(
      ClaimStore store, ClaimStore.Standing guess, Claim mine, BooleanSupplier gateOpen)
      throws IOException {
    return claim(store, guess, mine, FormerLocks.NONE, UNRECORDED, gateOpen);
  }

  static Outcome claim(
      ClaimStore store,
      ClaimStore.Standing guess,
      Claim mine,
      FormerLocks former,
      long recorded,
      BooleanSupplier gateOpen)
      throws IOException {
    boolean wrote = false;
    boolean followed = false;
    IOException unknown = null;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      boolean guessing =
          attempt == 0
              && guess != null
              && judge(guess, mine, former, recorded) == Verdict.REPLACEABLE;
      ClaimStore.Standing standing = guessing ? guess : store.read();
      Verdict verdict = judge(standing, mine, former, recorded);
      if (verdict == Verdict.REPEAT) {
        return new Outcome(wrote ? Verdict.CLAIMED : Verdict.REPEAT, standing, followed);
      }
      if (verdict != Verdict.REPLACEABLE) {
        return new Outcome(verdict, standing, followed);
      }
      if (!gateOpen.getAsBoolean()) {
        return new Outcome(Verdict.GATE, standing, followed);
      }
      wrote = true;
      followed = !standing.nothing();
      try {
        store.replace(standing, mine);
      } catch (IOException e) {
        if (unknown != null) {
          e.addSuppressed(unknown);
        }
        unknown = e;
        if (attempt >= 2 || Retries.allow(Failure.of(e))) {
          // contention raises nothing: a store that fails three times is down, a busy one wants a
          // pause
          throw e;
        }
      }
    }
    throw new IOException("no claim settled after " + ATTEMPTS + " attempts", unknown);
  }
}
