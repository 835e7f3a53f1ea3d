package dev.understudy.fence;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** Holds new batches, so that a savepoint can be taken between two of them. */
final class BatchHold {
  /**
   * A gate that is revoked meanwhile must end the wait of a held batch, and only a poll sees it.
   */
  private static final long POLL_MILLIS = 20;

  private boolean held;

  /** Holds new batches, until {@link #release}. */
  synchronized void hold() {
    held = true;
  }

  /**
   * Waits until no batch is in flight. Looks without the lock, which every batch needs: a look may
   * ask a store that does not answer.
   *
   * @return false if one still was after {@code timeoutMillis}
   */
  boolean awaitQuiet(long timeoutMillis, BooleanSupplier anyInFlight) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMillis);
    while (anyInFlight.getAsBoolean()) {
      long left = end - System.nanoTime();
      if (left <= 0) {
        return false;
      }
      pause(Math.max(1, Math.min(POLL_MILLIS, TimeUnit.NANOSECONDS.toMillis(left))));
    }
    return true;
  }

  /** A batch that ends between a look and this is seen by the next look. */
  @SuppressWarnings("WaitNotInLoop") // the caller loops
  private synchronized void pause(long millis) throws InterruptedException {
    wait(millis);
  }

  synchronized void release() {
    held = false;
    notifyAll();
  }

  synchronized boolean held() {
    return held;
  }

  /**
   * Runs {@code begin} unless batches are held or {@code othersFirst}, or if this one is {@code
   * exempt}. Returns false after a short wait otherwise.
   */
  @SuppressWarnings("WaitNotInLoop") // the caller loops, and asks the gate each time
  synchronized boolean begin(boolean exempt, boolean othersFirst, Runnable begin)
      throws InterruptedException {
    if ((held || othersFirst) && !exempt) {
      wait(POLL_MILLIS);
      return false;
    }
    begin.run();
    return true;
  }

  /** A batch has ended: {@link #awaitQuiet} may be waiting for it. */
  synchronized void ended() {
    notifyAll();
  }
}
