package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryStatus;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class StartPaceTest {
  /** Of four processors; the process keeps all busy unless a test says otherwise. */
  private final StartPace pace = new StartPace(4, () -> this.now, () -> this.used);

  private long now;
  private long used;

  /** A query whose status is this. */
  private static final class Query {
    private String message = "Processing new data";
    private boolean active = true;

    StreamingQuery spark() {
      return (StreamingQuery)
          Proxy.newProxyInstance(
              Query.class.getClassLoader(),
              new Class<?>[] {StreamingQuery.class},
              (proxy, method, arguments) ->
                  switch (method.getName()) {
                    case "isActive" -> active;
                    case "status" -> new StreamingQueryStatus(message, true, true);
                    case "lastProgress" -> null;
                    case "hashCode" -> 0;
                    case "equals" -> proxy == arguments[0];
                    default -> throw new UnsupportedOperationException(method.getName());
                  });
    }
  }

  private final Query first = new Query();
  private final Query second = new Query();

  private void passes(long millis, int processors) {
    now += TimeUnit.MILLISECONDS.toNanos(millis);
    used += TimeUnit.MILLISECONDS.toNanos(millis * processors);
  }

  @BeforeEach
  void twoBegin() {
    assertTrue(pace.turn());
    assertTrue(pace.turn());
    assertFalse(pace.turn());
    pace.begun(first.spark(), "first");
    pace.begun(second.spark(), "");
    passes(210, 4);
    assertFalse(pace.turn());
  }

  private void beginsUpTo(int queries) {
    for (int each = 0; each < queries; each++) {
      assertTrue(pace.turn());
    }
    assertFalse(pace.turn());
  }

  @Test
  void asManyAsProcessorsBeginOnceAFirstBatchHasEnded() {
    second.message = "Waiting for next trigger";
    beginsUpTo(3);
    passes(210, 4);
    assertFalse(pace.turn());
    passes(210, 3);
    beginsUpTo(1);
  }

  @Test
  void othersBeginWhenAQueryHasFailed() {
    first.active = false;
    beginsUpTo(3);
    pace.failed();
    beginsUpTo(1);
  }

  @Test
  void fewQueriesNeedNoPace() {
    StartPace fresh = new StartPace(4, () -> now, () -> used);
    assertFalse(fresh.isNeededFor(2));
    assertTrue(fresh.isNeededFor(3));
  }

  @Test
  void oneMoreBeginsForEveryTwoIdleProcessors() {
    passes(210, 3);
    assertFalse(pace.turn());
    passes(210, 2);
    beginsUpTo(1);
    passes(210, 0);
    beginsUpTo(2);
  }

  @Test
  void processorsThatAJvmHardlyUsesAreIdle() {
    passes(990, 0);
    passes(10, 4);
    beginsUpTo(2);
  }

  @Test
  void onFewProcessorsOneMoreBeginsWhereAllAreIdle() {
    for (int processors : new int[] {1, 2}) {
      StartPace few = new StartPace(processors, () -> now, () -> used);
      assertTrue(few.turn());
      few.begun(first.spark(), "first");
      assertFalse(few.turn());
      passes(210, processors);
      assertFalse(few.turn());
      passes(200, 0);
      passes(10, 1);
      assertTrue(few.turn(), processors + " processors");
    }
  }

  @Test
  void allMayBeginWhereABatchWaitsForAQueryThatHasNot() {
    pace.letAllBegin();
    for (int each = 0; each < 20; each++) {
      assertTrue(pace.turn());
    }
  }

  @Test
  void itIsOverWhenTheLastFirstBatchIs() {
    pace.end();
    pace.committed("first");
    assertFalse(pace.over());
    second.active = false;
    assertTrue(pace.over());
  }

  @Test
  void aFirstBatchIsWaitedForForNoMoreThanTwoSeconds() {
    pace.committed("first");
    pace.end();
    passes(1_700, 4);
    assertFalse(pace.mayGoOn("first"));
    passes(100, 4);
    assertTrue(pace.mayGoOn("first"));
    beginsUpTo(4);
  }

  @Test
  void nothingIsHeldBackForMoreThanTenSeconds() {
    passes(9_700, 4);
    beginsUpTo(4);
    passes(100, 4);
    assertTrue(pace.turn());
    assertTrue(pace.turn());
  }

  @Test
  void othersBeginWhenAFirstBatchIsCommitted() {
    pace.committed("first");
    beginsUpTo(3);
  }

  @Test
  void aSecondBatchWaitsUntilAllHaveRunTheirFirst() {
    assertTrue(pace.mayGoOn("first"));
    pace.committed("first");
    assertFalse(pace.mayGoOn("first"));
    assertTrue(pace.mayGoOn("second"));

    assertTrue(pace.turn());
    pace.end();
    second.active = false;
    assertFalse(pace.mayGoOn("first"), "the third has its turn, and has not begun");
    Query third = new Query();
    pace.begun(third.spark(), "third");
    assertFalse(pace.mayGoOn("first"));
    pace.committed("third");
    assertTrue(pace.mayGoOn("first"));
  }

  @Test
  void aSecondBatchWaitsForQueriesThatHaveNoTurnYet() {
    pace.committed("first");
    second.active = false;
    assertFalse(pace.mayGoOn("first"));
    pace.end();
    assertTrue(pace.mayGoOn("first"));
  }

  @Test
  void aSecondBatchWaitsForNoMoreThanTenSeconds() {
    pace.committed("first");
    passes(9_700, 4);
    assertFalse(pace.mayGoOn("first"));
    passes(100, 4);
    assertTrue(pace.mayGoOn("first"));
  }
}
