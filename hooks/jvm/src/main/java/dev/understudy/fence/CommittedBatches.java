package dev.understudy.fence;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * Which batch of a root was committed last, as far as this process has seen, and which one must
 * have been: the job's document says so. A checkpoint whose logs end before it was restored from a
 * copy, or lost entries; to go on from there would write rows again that have been written.
 *
 * <p>Spark lists both logs before it runs a batch, and what it finds is compared: that costs no
 * request of its own.
 */
final class CommittedBatches {
  static final String OFFSETS = "offsets";
  static final String COMMITS = "commits";

  private long last = BatchInFlight.NONE;
  private long recorded = BatchInFlight.NONE;
  private final Set<String> unseen = new HashSet<>();

  /** From now on each log must reach {@code batch} when it is listed for the first time. */
  synchronized void mustReach(long batch) {
    recorded = batch;
    unseen.clear();
    if (batch > BatchInFlight.NONE) {
      unseen.addAll(Arrays.asList(OFFSETS, COMMITS));
    }
  }

  /** It may be lower than the last one: a script has removed its checkpoint and begun another. */
  synchronized void landed(long batch) {
    last = batch;
  }

  /**
   * Notes that {@code log} was listed, and that {@code highest} is its last entry ({@link
   * BatchInFlight#NONE} for an empty one).
   *
   * @return the batch that it must reach and does not; {@link BatchInFlight#NONE} if all is well
   */
  synchronized long listed(String log, long highest) {
    if (log.equals(COMMITS)) {
      last = Math.max(last, highest);
    }
    if (unseen.contains(log) && highest < recorded) {
      return recorded;
    }
    unseen.remove(log);
    return BatchInFlight.NONE;
  }

  /** The last batch, or {@link BatchInFlight#NONE}. */
  synchronized long last() {
    return last;
  }
}
