package dev.understudy.fence;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Decides for one request whether it is sent again, after which pause, and for how long.
 *
 * <p>A writer asks the gate and the claim before <em>each</em> attempt. Seen without retries: plain
 * Spark met nine answers of 503 and went on, while each of six ended a driver of ours.
 */
final class Retries {
  private static final long BUSY_NANOS = TimeUnit.SECONDS.toNanos(60);
  private static final long FIRST_PAUSE_MILLIS = 50;
  private static final long LONGEST_PAUSE_MILLIS = 2_000;

  private static final long CLAIM_NANOS = TimeUnit.SECONDS.toNanos(5);
  private static final long CLAIM_TIMEOUTS = 3;
  private static final long CLAIM_PAUSE_MILLIS = 200;

  /** How long after the first attempt a failure leads to another one, in nanoseconds. */
  private interface Limit {
    long of(IOException failure);
  }

  private interface Pause {
    long millis(int failures);
  }

  private final Limit limit;
  private final Pause pause;
  private long began = System.nanoTime();
  private int failures;

  private Retries(Limit limit, Pause pause) {
    this.limit = limit;
    this.pause = pause;
  }

  /** For a write that may be done once: it is sent again only while it certainly was not done. */
  static Retries ofWrite() {
    return new Retries(
        failure -> allow(Failure.of(failure)) ? BUSY_NANOS : 0, Retries::jitteredMillis);
  }

  /**
   * For a request that may be done twice (a read, a delete, a look at a claim): it is sent again
   * also if its outcome is unknown.
   */
  static Retries ofRepeatable() {
    return new Retries(
        failure -> {
          Failure kind = Failure.of(failure);
          return allow(kind) || kind == Failure.UNANSWERED || kind == Failure.BROKEN
              ? BUSY_NANOS
              : 0;
        },
        Retries::jitteredMillis);
  }

  /**
   * For a claim, which is tried again after any failure: when it fails for good, the driver ends.
   * After an outage leaders and stores come back in any order, and a driver that gives up takes far
   * longer to be back.
   */
  static Retries ofClaim(long writeTimeoutMillis) {
    long any =
        Math.max(CLAIM_NANOS, TimeUnit.MILLISECONDS.toNanos(CLAIM_TIMEOUTS * writeTimeoutMillis));
    return new Retries(
        failure -> {
          // a time-out is an InterruptedIOException as well, and no request to stop
          boolean stopped =
              failure instanceof InterruptedIOException
                  && !(failure instanceof SocketTimeoutException);
          return stopped ? 0 : allow(Failure.of(failure)) ? Math.max(BUSY_NANOS, any) : any;
        },
        failures -> CLAIM_PAUSE_MILLIS);
  }

  /** Whether a write that failed so may be sent again. */
  static boolean allow(Failure failure) {
    return failure == Failure.NOT_DONE || failure == Failure.OVER;
  }

  /** Returns after a pause if the request may be sent again, else raises {@code failure}. */
  void pause(IOException failure) throws IOException {
    if (System.nanoTime() - began >= limit.of(failure)) {
      throw failure;
    }
    try {
      Thread.sleep(pause.millis(failures++));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      InterruptedIOException interrupted =
          new InterruptedIOException("interrupted while waiting to try again");
      interrupted.initCause(failure);
      throw interrupted;
    }
  }

  /**
   * Waits without counting the time. A leader that was parked at the gate has met no failure
   * meanwhile.
   */
  <T> T uncounted(IoCall<T> wait) throws IOException {
    long from = System.nanoTime();
    T answer = wait.call();
    began += System.nanoTime() - from;
    return answer;
  }

  /** As {@link #uncounted(IoCall)}, for what returns nothing. */
  void uncounted(IoAction wait) throws IOException {
    long from = System.nanoTime();
    wait.run();
    began += System.nanoTime() - from;
  }

  /** Sends a request that changes nothing of value, and so needs no gate. */
  static <T> T reading(IoCall<T> request) throws IOException {
    Retries retries = ofRepeatable();
    while (true) {
      try {
        return request.call();
      } catch (IOException e) {
        retries.pause(e);
      }
    }
  }

  private static long jitteredMillis(int failures) {
    return pauseMillis(failures, ThreadLocalRandom.current().nextDouble());
  }

  /**
   * Doubles with each failure, and is jittered by half, so that many writers do not come back in
   * step. {@code dice} is in [0, 1).
   */
  static long pauseMillis(int failures, double dice) {
    long whole = Math.min(LONGEST_PAUSE_MILLIS, FIRST_PAUSE_MILLIS << Math.min(failures, 10));
    return whole / 2 + (long) (dice * (whole - whole / 2));
  }
}
