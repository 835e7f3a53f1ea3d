package dev.understudy.fence;

import java.util.LinkedHashMap;
import java.util.Map;

/** A map that removes an entry for each new one beyond its limit. */
public final class BoundedMap<K, V> extends LinkedHashMap<K, V> {
  private static final long serialVersionUID = 1L;

  private final int limit;

  private BoundedMap(int limit, boolean accessOrder) {
    super(16, 0.75f, accessOrder);
    this.limit = limit;
  }

  /** Removes the entry first that was added first. */
  public static <K, V> Map<K, V> oldestFirst(int limit) {
    return new BoundedMap<>(limit, false);
  }

  /** Removes the entry first that was used least recently. */
  public static <K, V> Map<K, V> leastRecentlyUsedFirst(int limit) {
    return new BoundedMap<>(limit, true);
  }

  @Override
  protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
    return size() > limit;
  }
}
