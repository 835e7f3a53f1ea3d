package dev.understudy.savepoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointCopyTest {
  private static final long MINUTE = 60_000;
  private final Configuration conf = new Configuration();

  @TempDir Path home;
  private Path root;
  private Path target;

  @BeforeEach
  void aCheckpointOfTwentyBatches() throws IOException {
    root = home.resolve("checkpoint");
    target = home.resolve("savepoints/7/flights");
    write("metadata", "{\"id\":\"a\"}");
    write("_understudy/claim", "ours");
    write("state/0/_metadata/metadata", "operators");
    for (int batch = 0; batch < 20; batch++) {
      write("offsets/" + batch, "v1\n{}\n" + batch);
      write("commits/" + batch, "v1\n{}");
      write("state/0/0/" + (batch + 1) + ".delta", "delta");
    }
  }

  private void write(String name, String text) throws IOException {
    Path file = root.resolve(name);
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }

  private JsonNode copy() throws IOException {
    return new ObjectMapper()
        .readTree(CheckpointCopy.copy(root.toString(), target.toString(), conf, MINUTE));
  }

  private static Set<String> names(Path directory) throws IOException {
    try (Stream<Path> files = Files.walk(directory)) {
      return files
          .filter(Files::isRegularFile)
          .filter(file -> !file.getFileName().toString().startsWith("."))
          .map(file -> directory.relativize(file).toString())
          .collect(Collectors.toCollection(TreeSet::new));
    }
  }

  @Test
  void everythingButTheClaimIsCopiedAndWhatIsBeingWrittenIsNot() throws IOException {
    write("offsets/.20.tmp", "half");

    JsonNode done = copy();

    assertEquals(19, done.get("batch").asLong());
    Set<String> expected = names(root);
    expected.remove("_understudy/claim");
    assertEquals(expected, names(target));
    assertEquals(expected.size(), done.get("files").asInt());
    CheckpointCopy.verify(target.toString(), conf, MINUTE);
  }

  @Test
  void stateBeforeASnapshotThatIsOldEnoughIsLeftOut() throws IOException {
    write("state/0/0/5.snapshot", "old");
    write("state/0/0/9.snapshot", "the last one that a rehearsal may need");
    write("state/0/0/10.snapshot", "younger");

    copy();

    Set<String> state = names(target.resolve("state/0/0"));
    assertFalse(state.contains("5.snapshot") || state.contains("8.delta"));
    assertTrue(
        state.containsAll(List.of("9.snapshot", "9.delta", "10.snapshot", "10.delta", "20.delta")));
  }

  @Test
  void aFileThatIsNotAsItWasCopiedIsNamed() throws IOException {
    copy();
    Files.writeString(target.resolve("commits/19"), "v1\n{ ");

    IOException e =
        assertThrows(
            IOException.class, () -> CheckpointCopy.verify(target.toString(), conf, MINUTE));

    assertTrue(e.getMessage().contains("commits/19"), e.getMessage());
  }

  @Test
  void digestsThatTheListLacksArePutThereAndLengthsAreComparedAllTheSame() throws IOException {
    String digest = copy().get("digest").asText();
    Path list = target.resolveSibling("flights.files");
    String whole = Files.readString(list);
    Files.writeString(list, whole.replaceAll("(?m)^\\w+ ", "- "));

    assertEquals(digest, CheckpointCopy.verify(target.toString(), conf, MINUTE));

    assertEquals(whole, Files.readString(list));
    Files.writeString(list, whole.replaceAll("(?m)^\\w+ ", "- "));
    Files.writeString(target.resolve("commits/19"), "v1\n");
    assertThrows(IOException.class, () -> CheckpointCopy.verify(target.toString(), conf, MINUTE));
  }

  @Test
  void aBatchInFlightIsNotCopied() throws IOException {
    write("offsets/20", "v1\n{}\n20");

    IOException e = assertThrows(IOException.class, this::copy);

    assertTrue(e.getMessage().contains("batch 20 is not committed"), e.getMessage());
    assertFalse(Files.exists(target));
  }

  @Test
  void whatStandsAtTheTargetStays() throws IOException {
    copy();
    Set<String> before = names(target);

    assertThrows(FileAlreadyExistsException.class, this::copy);

    assertEquals(before, names(target));
  }

  @Test
  void ofAQueryThatHasCommittedNothingNothingIsCopied() throws IOException {
    root = home.resolve("new");
    write("metadata", "{}");

    assertEquals(-1, copy().get("batch").asLong());
    assertFalse(Files.exists(target));
  }

  @Test
  void whatTimeThatIsOverLeavesGoesWhenItIsDiscarded() throws IOException {
    IOException e =
        assertThrows(
            IOException.class,
            () -> CheckpointCopy.copy(root.toString(), target.toString(), conf, 0));

    assertTrue(e.getMessage().contains("took longer than"), e.getMessage());
    CheckpointCopy.discard(target.toString(), conf);
    assertFalse(Files.exists(target));
  }

  @Test
  void aFileThatIsGoneIsLeftOutUnlessTheLastBatchNeedsIt() throws IOException {
    FileSystem files = FileSystem.getLocal(conf);
    org.apache.hadoop.fs.Path from = new org.apache.hadoop.fs.Path(root.toString());
    Set<String> needed = CheckpointFiles.of(files, from).needed();

    assertEquals(Set.of("metadata", "offsets/19", "commits/19"), needed);
    assertThrows(
        FileNotFoundException.class,
        () ->
            FileList.Entry.copy(
                files,
                from,
                files,
                new org.apache.hadoop.fs.Path(target.toString()),
                "offsets/99"));
  }

  @Test
  void aCopyIsDiscardedWithItsList() throws IOException {
    copy();

    CheckpointCopy.discard(target.toString(), conf);

    assertEquals(Set.of(), names(target.getParent()));
  }
}
