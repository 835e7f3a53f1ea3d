package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

final class RecentMapTest {
  private long now;
  private final RecentMap<Integer> map = new RecentMap<>(500, 10, () -> now);

  @Test
  void namesThatAreSeenForAWhileDoNotAddUp() {
    for (int look = 0; look < 2_000; look++) {
      now += 11;
      for (int name = look; name < look + 100; name++) {
        map.put("state/0/0/" + name, look);
      }
    }
    assertTrue(map.size() <= 101, "100 names are there, and one may be looked at first");
    assertEquals(1_999, map.remove("state/0/0/2050"));
    assertNull(map.remove("state/0/0/2050"));
  }

  @Test
  void whatIsTooOldIsNotGivenOut() {
    map.put("a", 1);
    now += 10;
    map.put("b", 2);
    assertEquals(1, map.remove("a"));
    now += 11;
    assertNull(map.remove("b"));
  }

  @Test
  void whatIsSeenAgainIsNewAgain() {
    map.put("a", 1);
    now += 8;
    map.put("b", 2);
    map.put("a", 3);
    now += 8;
    map.put("c", 4);
    assertEquals(3, map.remove("a"));
  }

  @Test
  void thereAreNeverMoreThanTheLimit() {
    for (int name = 0; name < 1_000; name++) {
      map.put("f" + name, name);
    }
    assertEquals(500, map.size());
    assertNull(map.remove("f499"));
    assertEquals(500, map.remove("f500"));
  }
}
