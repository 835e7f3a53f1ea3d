package dev.understudy.fence;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * What was seen in the last seconds. An older entry is never given out, and goes as others come:
 * names that are seen once, of files that someone else deletes, do not add up.
 */
final class RecentMap<V> {
  private record Entry<V>(V value, long nanos) {}

  private final int limit;
  private final long keptNanos;
  private final LongSupplier clock;

  /** In the order in which they were last put. */
  private final Map<String, Entry<V>> entries = new LinkedHashMap<>();

  /**
   * @param limit of entries, of which the oldest goes first
   * @param clock as {@link System#nanoTime}
   */
  RecentMap(int limit, long keptNanos, LongSupplier clock) {
    this.limit = limit;
    this.keptNanos = keptNanos;
    this.clock = clock;
  }

  synchronized void put(String key, V value) {
    entries.remove(key);
    entries.put(key, new Entry<>(value, clock.getAsLong()));
    Iterator<Entry<V>> oldest = entries.values().iterator();
    while (oldest.hasNext() && (isOld(oldest.next()) || entries.size() > limit)) {
      oldest.remove();
    }
  }

  /** Null where there is none, or it is too old. */
  synchronized V remove(String key) {
    Entry<V> found = entries.remove(key);
    return found == null || isOld(found) ? null : found.value();
  }

  synchronized int size() {
    return entries.size();
  }

  private boolean isOld(Entry<V> entry) {
    return clock.getAsLong() - entry.nanos() > keptNanos;
  }
}
