package dev.understudy.rehearsal;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Of a checkpoint with batches 0 to 4, batch 3 is rehearsed. */
@Timeout(30)
class OverlayTest {
  private static final String OFFSETS = "v1\n{\"batchWatermarkMs\":0}\n{\"logOffset\":%d}";

  @TempDir java.nio.file.Path directory;

  private final Configuration conf = new Configuration();
  private java.nio.file.Path real;
  private java.nio.file.Path scratch;
  private Map<String, String> before;
  private Overlay overlay;
  private FileSystem files;

  @BeforeEach
  void open() throws IOException {
    real = directory.resolve("real");
    scratch = directory.resolve("scratch");
    Files.createDirectories(scratch);
    for (int batch = 0; batch <= 4; batch++) {
      write("offsets/" + batch, OFFSETS.formatted(batch));
      write("commits/" + batch, "v1\n{}");
      write("sources/0/" + batch, "v1");
      write("state/0/0/" + (batch + 1) + ".delta", "state");
    }
    write("metadata", "{\"id\":\"the real one\"}");
    write("_understudy/claim@1", "{}");
    before = content(real);
    FileSystem local = FileSystem.getLocal(conf);
    Path root = new Path(real.toString());
    ReplayableBatch past =
        new ReplayableBatch(local, root, 3, 4, 0, java.util.List.of(), Map.of("0", 3L));
    overlay = Overlay.open(past, new Path(scratch.toString()), local, false);
    files = new OverlayFileSystem();
    files.initialize(java.net.URI.create(Overlay.SCHEME + ":///"), conf);
  }

  @AfterEach
  void theRealCheckpointIsUntouched() throws IOException {
    overlay.close();
    assertEquals(before, content(real));
  }

  private void write(String relative, String text) throws IOException {
    Files.createDirectories(real.resolve(relative).getParent());
    Files.writeString(real.resolve(relative), text);
  }

  private static Map<String, String> content(java.nio.file.Path root) throws IOException {
    Map<String, String> content = new TreeMap<>();
    try (Stream<java.nio.file.Path> paths = Files.walk(root)) {
      for (java.nio.file.Path each : (Iterable<java.nio.file.Path>) paths::iterator) {
        if (Files.isRegularFile(each)) {
          content.put(root.relativize(each).toString(), Files.readString(each));
        }
      }
    }
    return content;
  }

  private Path at(String relative) {
    return new Path(overlay.root() + "/" + relative);
  }

  private String read(String relative) throws IOException {
    try (InputStream in = files.open(at(relative))) {
      return new String(in.readAllBytes(), UTF_8);
    }
  }

  private void create(String relative, String text) throws IOException {
    try (OutputStream out = files.create(at(relative))) {
      out.write(text.getBytes(UTF_8));
    }
  }

  private Set<String> names(String relative) throws IOException {
    return Arrays.stream(files.listStatus(at(relative)))
        .map(each -> each.getPath().getName())
        .collect(Collectors.toSet());
  }

  private String inScratch(String relative) throws IOException {
    return Files.readString(scratch.resolve("checkpoint").resolve(relative));
  }

  @Test
  void readsFallThroughToTheRealCheckpoint() throws IOException {
    assertEquals(OFFSETS.formatted(3), read("offsets/3"));
    assertTrue(files.exists(at("commits/2")));
    assertEquals("state", read("state/0/0/3.delta"));
  }

  @Test
  void theCommitOfTheRehearsedBatchAndAllThatIsNewerAreHidden() throws IOException {
    assertFalse(files.exists(at("commits/3")));
    assertThrows(FileNotFoundException.class, () -> read("commits/3"));
    assertEquals(Set.of("0", "1", "2"), names("commits"));
    assertEquals(Set.of("0", "1", "2", "3"), names("offsets"));
    assertEquals(Set.of("0", "1", "2", "3"), names("sources/0"));
    assertEquals(Set.of("1.delta", "2.delta", "3.delta"), names("state/0/0"));
  }

  @Test
  void claimsAndTheRealIdAreHidden() throws IOException {
    assertFalse(files.exists(at("_understudy/claim@1")));
    assertFalse(read("metadata").contains("the real one"));
  }

  @Test
  void writesGoToScratchAndAreReadBack() throws IOException {
    create("state/0/0/4.delta", "ours");

    assertEquals("ours", read("state/0/0/4.delta"));
    assertEquals("ours", inScratch("state/0/0/4.delta"));
    assertTrue(names("state/0/0").contains("4.delta"));
  }

  @Test
  void whatIsWrittenOverARealFileHidesItInTheOverlayOnly() throws IOException {
    create("offsets/3", "ours");

    assertEquals("ours", read("offsets/3"));
    assertEquals(OFFSETS.formatted(3), Files.readString(real.resolve("offsets/3")));
  }

  @Test
  void whatIsDeletedIsGoneInTheOverlayOnly() throws IOException {
    assertTrue(files.delete(at("state"), true));

    assertFalse(files.exists(at("state/0/0/1.delta")));
    assertTrue(Files.exists(real.resolve("state/0/0/1.delta")));
    assertFalse(files.delete(at("commits/3"), false));
  }

  @Test
  void aRenamedRealFileIsCopied() throws IOException {
    assertTrue(files.rename(at("offsets/0"), at("offsets/0.old")));

    assertEquals(OFFSETS.formatted(0), read("offsets/0.old"));
    assertFalse(files.exists(at("offsets/0")));
    assertFalse(files.rename(at("commits/3"), at("commits/3.old")));
  }

  @Test
  void theBatchIsCommittedWhenItsCommitHasItsName() throws IOException {
    assertFalse(overlay.batchCommitted());
    create("commits/.3.x.tmp", "v1\n{}");
    assertFalse(overlay.batchCommitted());

    assertTrue(files.rename(at("commits/.3.x.tmp"), at("commits/3")));

    assertTrue(overlay.batchCommitted());
  }

  @Test
  void theNextBatchIsHeldUntilTheRoundIsOver() throws Exception {
    CompletableFuture<Void> next =
        CompletableFuture.runAsync(
            () -> {
              try {
                create("offsets/.4.x.tmp", "v1");
              } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
              }
            });
    while (!overlay.wentOn()) {
      Thread.sleep(1);
    }
    assertFalse(next.isDone());

    overlay.release();

    ExecutionException raised =
        assertThrows(ExecutionException.class, () -> next.get(10, TimeUnit.SECONDS));
    assertInstanceOf(InterruptedIOException.class, raised.getCause().getCause());
  }

  @Test
  void aRoundThatIsOverIsNotFound() {
    overlay.close();

    FileNotFoundException raised =
        assertThrows(FileNotFoundException.class, () -> read("offsets/3"));

    assertTrue(raised.getMessage().contains("is over"));
  }

  @Test
  void aPathOutsideOfARehearsalIsNotFound() {
    assertThrows(
        FileNotFoundException.class,
        () -> files.getFileStatus(new Path(Overlay.SCHEME + ":/elsewhere/offsets/0")));
  }
}
