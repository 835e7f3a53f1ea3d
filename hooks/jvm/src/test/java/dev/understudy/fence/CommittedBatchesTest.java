package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CommittedBatchesTest {
  @TempDir Path directory;

  private final Configuration conf = new Configuration();
  private FileSystem files;
  private FenceSession session;

  @BeforeEach
  void attach() throws IOException {
    files = FileSystem.getLocal(conf);
    GatePage gate = new GatePage(directory).write(Gate.State.OPEN, GatePage.token(5, 1));
    Identity identity = new Identity("me", "cluster", "job", "file");
    String log = directory.resolve("fence.jsonl").toString();
    session =
        FenceSession.open(new FenceSession.Settings(gate.path().toString(), identity, log, 1_000));
  }

  private void list(String log, int... entries) throws IOException {
    Path place = Files.createDirectories(directory.resolve("checkpoint").resolve(log));
    for (int entry : entries) {
      Files.writeString(place.resolve(Integer.toString(entry)), "");
    }
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(place.toString());
    FileStatus[] found = files.listStatus(path);
    session.listed(files, path, found);
  }

  private void claim(long committed) throws IOException {
    session.claim(directory.resolve("checkpoint").toString(), conf, Claims.UNRECORDED, committed);
  }

  @ParameterizedTest
  @ValueSource(strings = {"offsets", "commits"})
  void aLogThatEndsBeforeWhatWasCommittedIsRefused(String log) throws IOException {
    claim(7);

    IOException refused = assertThrows(IOException.class, () -> list(log, 5, 6));

    assertTrue(refused.getMessage().contains(log + " ends with batch 6"), refused.getMessage());
    assertTrue(session.refusal().contains("\"kind\":\"behind\""));
  }

  @Test
  void anEmptyLogIsRefused() throws IOException {
    claim(0);

    assertThrows(IOException.class, () -> list("commits"));
  }

  @Test
  void whatIsAsFarAsTheRecordOrFartherIsNot() throws IOException {
    claim(7);

    list("offsets", 6, 7, 8);
    list("commits", 6, 7);

    assertEquals("", session.refusal());
  }

  @Test
  void aLogIsComparedWhenItIsListedForTheFirstTime() throws IOException {
    claim(7);
    list("commits", 7);
    Files.delete(directory.resolve("checkpoint/commits/7"));

    list("commits", 6);
  }

  @Test
  void withoutARecordNothingIsCompared() throws IOException {
    claim(BatchInFlight.NONE);

    list("offsets");
    list("commits");
  }

  @Test
  void theLastBatchIsTheOneThatLandedLastOrTheHighestListed() {
    CommittedBatches batches = new CommittedBatches();
    assertEquals(BatchInFlight.NONE, batches.last());

    assertEquals(BatchInFlight.NONE, batches.listed("commits", 4));
    assertEquals(BatchInFlight.NONE, batches.listed("offsets", 5));
    assertEquals(4, batches.last());
    batches.landed(5);
    assertEquals(5, batches.last());
    batches.landed(0);

    assertEquals(0, batches.last(), "of a checkpoint that was begun again");
  }
}
