package dev.understudy.rehearsal;

/**
 * What functions of the user's are changing, in rehearsals of one query, of the sessions and the
 * cache that they share with the job's own batches: caches, temporary views, settings.
 *
 * <p>Once its rehearsal is cancelled a function changes no more of it. What it was changing then
 * has to end before the first batch of the job's, which would read the rehearsal's.
 */
final class SessionChanges {
  private int underWay;

  synchronized void begin() {
    underWay++;
  }

  synchronized void end() {
    underWay--;
    notifyAll();
  }

  /** Waits until none is under way. */
  synchronized void awaitNone() throws InterruptedException {
    while (underWay > 0) {
      wait();
    }
  }
}
