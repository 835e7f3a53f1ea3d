package dev.understudy.rehearsal;

import java.util.List;

/** How much the state may take that is kept loaded. */
final class StateLimits {
  /** How much of the heap may be taken, where state is on it: a rehearsal takes as much again. */
  private static final double SHARE_OF_HEAP = 0.2;

  private StateLimits() {}

  /**
   * Why these are too much, in words; null if they are not.
   *
   * @param limit bytes that they may take together, on the heap and beside it
   */
  static String exceeded(List<WarmStore> stores, long limit) {
    long heap = Runtime.getRuntime().maxMemory();
    long onHeap = bytes(stores, true);
    if (onHeap > SHARE_OF_HEAP * heap) {
      return "state takes more than " + (int) (SHARE_OF_HEAP * 100) + " % of the driver's heap";
    }
    return onHeap + bytes(stores, false) > limit
        ? "state takes more than the " + (limit >> 20) + " MB of --rehearse-state"
        : null;
  }

  private static long bytes(List<WarmStore> stores, boolean onHeap) {
    return stores.stream()
        .filter(each -> each.onHeap() == onHeap)
        .mapToLong(each -> each.measured)
        .sum();
  }
}
