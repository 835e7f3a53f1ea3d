package dev.understudy.fence;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The question before every write: is the gate open, and is the claim ours? Waits while the gate is
 * closed or a standby's, and raises {@link LeadershipLostException} when waiting is over.
 */
final class Admission {
  private static final long GATE_POLL_MILLIS = 3;
  private static final long LOOK_LOCAL_NANOS = 10_000_000;
  private static final long LOOK_REMOTE_NANOS = 500_000_000;

  private final Identity identity;
  private final Gate gate;
  private final FenceLog log;

  /** The first reason for which no driver of this job can work. */
  private final AtomicReference<Refusal> refusal = new AtomicReference<>();

  Admission(Identity identity, Gate gate, FenceLog log) {
    this.identity = identity;
    this.gate = gate;
    this.log = log;
  }

  Refusal refusal() {
    return refusal.get();
  }

  /**
   * Returns when this process may do {@code op} on {@code path} now: the gate is open, and the
   * claim is ours; with {@code readClaim} it has been read. The gate is asked last, so that a
   * freeze while the claim is read is seen.
   *
   * @throws LeadershipLostException if this driver may not write any more
   */
  void admit(ClaimedDirectory root, String op, String path, boolean readClaim) throws IOException {
    Retries retries = Retries.ofRepeatable();
    while (true) {
      Gate.View view = retries.uncounted(() -> awaitOpen(root, op, path));
      if (root.claimable()) {
        Claims.Verdict verdict;
        try {
          verdict = standing(root, view.token(), readClaim);
        } catch (IOException e) {
          retries.pause(e);
          continue;
        }
        if (verdict.refused()) {
          throw refused(view.token(), op, path, reasonAtWrite(verdict));
        }
        if (!verdict.ours()) {
          continue;
        }
      }
      if (gate.isOpen(view.token())) {
        root.admitted(view.token());
        return;
      }
    }
  }

  /**
   * Claims {@code root} with the gate's token; waits for the gate as every write does.
   *
   * @param recorded the token under which this job has claimed it before, or {@link
   *     Claims#UNRECORDED}
   */
  Claims.Outcome claim(ClaimedDirectory root, long recorded, Retries retries) throws IOException {
    while (true) {
      Gate.View view = retries.uncounted(() -> awaitOpen(root, "claim", root.key));
      Claims.Outcome outcome;
      try {
        outcome = attempt(root, view.token(), recorded);
      } catch (IOException e) {
        retries.pause(e);
        continue;
      }
      if (outcome.verdict() != Claims.Verdict.GATE) {
        return outcome;
      }
    }
  }

  /** Makes ready what {@link #claim} will need. Changes nothing that another process reads. */
  void prepare(ClaimedDirectory root) throws IOException {
    try {
      root.prepare();
    } catch (UnfitStoreException e) {
      throw noted(e);
    }
  }

  private Claims.Verdict standing(ClaimedDirectory root, long token, boolean readClaim)
      throws IOException {
    boolean ours = root.token() == token && (!readClaim || root.stands(token));
    // no claim yet, a new token in the page, or another claim stands: claiming tells which
    return ours ? Claims.Verdict.REPEAT : attempt(root, token, Claims.UNRECORDED).verdict();
  }

  private Claims.Outcome attempt(ClaimedDirectory root, long token, long recorded)
      throws IOException {
    Claims.Outcome outcome;
    try {
      outcome =
          root.claim(
              identity.claim(token), identity.formerLocks(), recorded, () -> gate.isOpen(token));
    } catch (UnfitStoreException e) {
      throw noted(e);
    }
    if (outcome.verdict().refused()) {
      log.write(token, "claim", root.key, WriteOutcome.REFUSED, outcome.verdict().reason);
      refusal.compareAndSet(null, Refusal.of(root.key, outcome));
    } else if (outcome.verdict() == Claims.Verdict.CLAIMED) {
      log.write(token, "claim", root.key, WriteOutcome.ACCEPTED, "");
    }
    return outcome;
  }

  /** What a checkpoint is refused with whose {@code log} ends before a batch that was committed. */
  IOException behind(String root, String log, long highest, long committed) {
    Refusal behind = Refusal.behind(root, log, highest, committed);
    refusal.compareAndSet(null, behind);
    return new IOException(root + ": " + behind.what());
  }

  private UnfitStoreException noted(UnfitStoreException e) {
    refusal.compareAndSet(null, Refusal.of(e));
    return e;
  }

  /** A closed gate is waited for until the park deadline, a standby's without limit. */
  private Gate.View awaitOpen(ClaimedDirectory root, String op, String path) throws IOException {
    long nextLook = System.nanoTime();
    long lastToken = Math.max(0, root.token());
    Gate.View last = null;
    while (true) {
      Gate.View view = gate.read();
      Moment now = Moment.now();
      if (view != null) {
        last = view;
        lastToken = view.token();
      }
      Gate.State state = view == null ? Gate.State.CLOSED : view.stateAt(now);
      switch (state) {
        case OPEN -> {
          return view;
        }
        case REVOKED -> throw refused(lastToken, op, path, "revoked");
        case CLOSED -> {
          if (System.nanoTime() >= nextLook) {
            // the new leader has claimed the root: no need to wait until the supervisor knows
            Claims.Verdict objection = objection(root, lastToken);
            if (objection != null) {
              throw refused(lastToken, op, path, reasonAtWrite(objection));
            }
            nextLook = System.nanoTime() + (root.remote() ? LOOK_REMOTE_NANOS : LOOK_LOCAL_NANOS);
          }
          if (last != null && last.state() != Gate.State.STANDBY && last.parkDue(now)) {
            throw refused(lastToken, op, path, "park-deadline");
          }
        }
        case STANDBY -> {}
      }
      pause(path);
    }
  }

  private Claims.Verdict objection(ClaimedDirectory root, long token) {
    try {
      return root.objection(identity.claim(token), identity.formerLocks());
    } catch (IOException e) {
      return null; // the gate is closed anyway, and this answer permits no write
    }
  }

  private static String reasonAtWrite(Claims.Verdict verdict) {
    return verdict == Claims.Verdict.HIGHER_TOKEN ? "higher-claim" : verdict.reason;
  }

  private LeadershipLostException refused(long token, String op, String path, String reason) {
    log.write(token, op, path, WriteOutcome.REFUSED, reason);
    String number = (token >> 32) + "." + (token & 0xffffffffL);
    return new LeadershipLostException(
        "%s of %s refused: %s (token %s, holder %s)"
            .formatted(op, path, Refusal.words(reason), number, identity.holder()));
  }

  private static void pause(String path) throws InterruptedIOException {
    try {
      Thread.sleep(GATE_POLL_MILLIS);
    } catch (InterruptedException e) {
      throw interrupted(path);
    }
  }

  static InterruptedIOException interrupted(String path) {
    Thread.currentThread().interrupt();
    return new InterruptedIOException(
        "interrupted while waiting for the gate before writing " + path);
  }
}
