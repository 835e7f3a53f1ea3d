package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ClaimRegistryTest {
  private static final Identity IDENTITY = new Identity("me", "cluster", "job", "file");

  @TempDir java.nio.file.Path directory;

  private final Configuration conf = new Configuration();
  private final ClaimRegistry registry = new ClaimRegistry(new ObjectStoreClients(1_000, true));
  private FileSystem files;

  @BeforeEach
  void local() throws IOException {
    files = FileSystem.getLocal(conf);
  }

  private Path path(String relative) {
    return new Path(directory.toString(), relative);
  }

  private String key(String relative) {
    return directory.resolve(relative).toString();
  }

  private ClaimedDirectory above(String relative) throws IOException {
    return registry.above(files, path(relative), conf, false);
  }

  private ClaimedDirectory output(String relative) throws IOException {
    return registry.output(files, path(relative), conf, IDENTITY);
  }

  @ParameterizedTest
  @CsvSource({
    "/x/metadata, /x",
    "/x/offsets/0, /x",
    "/x/commits/7, /x",
    "/x/sources/0/3, /x",
    "/x/state/0/3/1.delta, /x",
    "/x/state/0/_metadata/metadata, /x",
    "/x/_spark_metadata/0, /x",
    "/x/other/file, /x/other",
    "s3a://bucket/x/offsets/0, s3a://bucket/x",
    "s3a://bucket/offsets/0, s3a://bucket/",
    "s3a://bucket/state/0/0/1.delta, s3a://bucket/",
  })
  void thePlaceOfAFileSuggestsItsRoot(String file, String root) {
    assertEquals(root, ClaimRegistry.checkpointRoot(file));
  }

  @ParameterizedTest
  @CsvSource({
    "/t, /t",
    "/t/a=1/b=2, /t",
    "/t/a=1/plain, /t/a=1/plain",
    "s3a://b/t/a=1, s3a://b/t",
    "s3a://b/a=1/c=2, s3a://b/"
  })
  void aPartitionBelongsToItsTable(String directory, String root) {
    assertEquals(root, ClaimRegistry.sinkRoot(directory));
  }

  @Test
  void theNearestKnownRootIsTaken() throws IOException {
    ClaimedDirectory outer = registry.named(files, path("a"), conf);
    assertSame(outer, above("a/b/offsets/0"));

    ClaimedDirectory inner = registry.named(files, path("a/b"), conf);

    assertSame(inner, above("a/b/offsets/0"));
    assertSame(outer, above("a/offsets/0"));
  }

  @Test
  void aRootIsTheSameObjectUntilItIsForgotten() throws IOException {
    ClaimedDirectory first = registry.named(files, path("a"), conf);
    assertSame(first, registry.named(files, path("a"), conf));

    registry.forget(key("a"));

    assertNotSame(first, registry.named(files, path("a"), conf));
  }

  @Test
  void aTemporaryCheckpointOfSparkIsNotClaimed() throws IOException {
    java.nio.file.Path tmp = java.nio.file.Path.of(System.getProperty("java.io.tmpdir"));
    Path temporary =
        new Path(tmp.resolve("temporary-" + UUID.randomUUID()).toString(), "offsets/0");

    assertFalse(registry.above(files, temporary, conf, false).claimable());
    assertTrue(above("temporary-" + UUID.randomUUID() + "/offsets/0").claimable());
  }

  @Test
  void anOutputOfBatchesGivesWayToAClaimOfTheWholeDirectory() throws IOException {
    ClaimedDirectory batches = output("table");
    assertTrue(batches.output());
    assertSame(batches, output("table/day=1"));

    ClaimedDirectory whole = registry.above(files, path("table"), conf, true);

    assertFalse(whole.output());
    assertSame(whole, output("table"));
  }

  @Test
  void anOutputIsKnownAsLongAsAJobHoldsIt() throws IOException {
    ClaimedDirectory held = output("first");
    for (int other = 0; other < 300; other++) {
      output("other-" + other);
    }

    assertSame(held, output("first"));
  }

  @Test
  void aRootIsWithoutBatchUntilItsOffsetsAreAheadOfItsCommits() throws IOException {
    ClaimedDirectory root = registry.named(files, path("a"), conf);
    assertFalse(registry.anyInFlight());

    Files.createDirectories(directory.resolve("a/offsets"));
    Files.createDirectories(directory.resolve("a/commits"));
    Files.createFile(directory.resolve("a/offsets/0"));
    root.inFlight.unclear();
    assertTrue(registry.anyInFlight());
    assertEquals(0, root.inFlight.get());

    Files.createFile(directory.resolve("a/commits/0"));
    root.inFlight.unclear();
    assertFalse(registry.anyInFlight());
  }
}
