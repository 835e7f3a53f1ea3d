package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.util.UninterruptibleThread;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StateOnItsWayTest {
  @TempDir java.nio.file.Path home;
  private Path root;
  private FencedCheckpointFileManager files;

  @BeforeEach
  void aCheckpoint() throws IOException {
    root = new Path("file:" + home + "/checkpoint");
    files = new FencedCheckpointFileManager(root, new Configuration());
    for (String each : List.of("checkpoint/state", "checkpoint/offsets", "checkpoint2/state")) {
      Files.createDirectories(home.resolve(each));
      Files.createFile(home.resolve(each).resolve("file"));
    }
  }

  private CompletableFuture<?> exists(String below) {
    return inThreadOfQuery(() -> files.exists(new Path(root, below)));
  }

  private static CompletableFuture<?> inThreadOfQuery(Runnable work) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    Thread thread =
        new UninterruptibleThread("stream execution thread") {
          @Override
          public void run() {
            work.run();
            done.complete(null);
          }
        };
    thread.setDaemon(true);
    thread.start();
    return done;
  }

  @Test
  void aPlanWaitsForItsStateAndMeanwhileReadsItsLogs() throws Exception {
    CompletableFuture<Void> handedOver = new CompletableFuture<>();
    StateOnItsWay.to(root, handedOver::join);
    exists("offsets").get(30, TimeUnit.SECONDS);
    exists("../checkpoint2/state").get(30, TimeUnit.SECONDS);
    Path state = new Path(root, "state");
    List<CompletableFuture<?>> waiting =
        List.of(
            exists("state"),
            inThreadOfQuery(() -> files.list(state, path -> true)),
            inThreadOfQuery(() -> Sneaky.run(() -> files.open(new Path(state, "file")).close())));
    for (CompletableFuture<?> each : waiting) {
      assertThrows(TimeoutException.class, () -> each.get(200, TimeUnit.MILLISECONDS));
    }
    handedOver.complete(null);
    for (CompletableFuture<?> each : waiting) {
      each.get(30, TimeUnit.SECONDS);
    }
    exists("state").get(30, TimeUnit.SECONDS);
  }

  @Test
  void whatHandsOverReadsTheStateItself() throws Exception {
    StateOnItsWay.to(
        root, () -> CompletableFuture.runAsync(() -> files.exists(new Path(root, "state"))).join());
    exists("state").get(30, TimeUnit.SECONDS);
  }

  @Test
  void whereItFailsSparkLoadsItsState() throws Exception {
    StateOnItsWay.to(
        root,
        () -> {
          Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> {});
          throw new IllegalStateException("lost");
        });
    exists("state").get(30, TimeUnit.SECONDS);
  }
}
