package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class BatchHoldTest {
  private final BatchHold hold = new BatchHold();
  private final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  void end() {
    threads.shutdownNow();
  }

  @Test
  void aLookThatLastsHoldsUpNoOther() throws Exception {
    CompletableFuture<Void> looks = new CompletableFuture<>();
    CompletableFuture<Boolean> answer = new CompletableFuture<>();
    Future<Boolean> quiet =
        threads.submit(
            () ->
                hold.awaitQuiet(
                    1_000,
                    () -> {
                      looks.complete(null);
                      return answer.join();
                    }));
    looks.get(10, TimeUnit.SECONDS);

    Future<Boolean> others =
        threads.submit(
            () -> {
              hold.hold();
              hold.ended();
              hold.release();
              return hold.begin(false, false, () -> {});
            });
    assertTrue(others.get(10, TimeUnit.SECONDS));
    assertFalse(quiet.isDone());

    answer.complete(false);
    assertTrue(quiet.get(10, TimeUnit.SECONDS));
  }
}
