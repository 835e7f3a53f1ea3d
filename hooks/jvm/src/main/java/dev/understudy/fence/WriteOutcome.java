package dev.understudy.fence;

/** What became of a write, as the fence's log and its counters call it. */
enum WriteOutcome {
  ACCEPTED("accepted"),
  REFUSED("refused"),
  /** The answer to the request was lost: the write may have landed, or may land later. */
  UNKNOWN("unknown");

  final String text;

  WriteOutcome(String text) {
    this.text = text;
  }
}
