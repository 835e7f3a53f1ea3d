package dev.understudy.rehearsal;

import java.util.Locale;

/** What a rehearsal reads: the leader's batch, made-up rows, no rows; or whether there is none. */
enum RehearsalMode {
  LIVE,
  SYNTHETIC,
  PLAN,
  OFF;

  /** Raises an {@link IllegalArgumentException} for another name. */
  static RehearsalMode of(String name) {
    try {
      return valueOf(name.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "rehearsal mode is '" + name + "'. Give live, synthetic, plan or off", e);
    }
  }
}
