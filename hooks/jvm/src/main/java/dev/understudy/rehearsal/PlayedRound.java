package dev.understudy.rehearsal;

import java.util.Locale;

/**
 * What one round of a rehearsal came to.
 *
 * @param ran whether it ran a batch
 * @param generated whether its rows were made up
 * @param rows of the batch
 */
record PlayedRound(boolean ran, boolean generated, long rows) {
  /** As {@link Rehearsal#round()} returns it. */
  String json(String how, long batch, double seconds) {
    return String.format(
        Locale.ROOT,
        "{\"how\":\"%s\",\"batch\":%d,\"seconds\":%.3f,\"rows\":%d}",
        how,
        batch,
        seconds,
        rows);
  }
}
