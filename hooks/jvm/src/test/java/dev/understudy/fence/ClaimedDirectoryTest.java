package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.understudy.fence.Claims.Verdict;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ClaimedDirectoryTest {
  private static final Identity IDENTITY = new Identity("me", "cluster", "job", "file");

  @TempDir Path root;

  private final ObjectStoreClients clients = new ObjectStoreClients(1_000, true);

  private ClaimedDirectory checkpoint() throws IOException {
    Configuration conf = new Configuration();
    return ClaimedDirectory.of(root.toString(), FileSystem.getLocal(conf), conf, clients);
  }

  private ClaimedDirectory output() throws IOException {
    Configuration conf = new Configuration();
    FileSystem files = FileSystem.getLocal(conf);
    return ClaimedDirectory.ofOutput(root.toString(), files, conf, clients, IDENTITY);
  }

  private static Claim claim(long token, String holder) {
    return new Claim(token, holder, "cluster", "job", "file");
  }

  private static Verdict claimed(ClaimedDirectory directory, Claim mine) throws IOException {
    return directory.claim(mine, FormerLocks.NONE, Claims.UNRECORDED, () -> true).verdict();
  }

  @Test
  void aClaimStandsUntilASuccessorClaims() throws IOException {
    ClaimedDirectory mine = checkpoint();
    assertEquals(-1, mine.token());
    assertEquals(Verdict.CLAIMED, claimed(mine, claim(7, "me")));
    assertTrue(mine.stands(7));
    assertNull(mine.objection(claim(7, "me"), FormerLocks.NONE));

    assertEquals(Verdict.CLAIMED, claimed(checkpoint(), claim(8, "successor")));

    assertFalse(mine.stands(7));
    assertEquals(Verdict.HIGHER_TOKEN, mine.objection(claim(7, "me"), FormerLocks.NONE));
  }

  @Test
  void anotherTokenThanTheClaimedOneDoesNotStand() throws IOException {
    ClaimedDirectory mine = checkpoint();
    claimed(mine, claim(7, "me"));

    assertFalse(mine.stands(8));
  }

  @Test
  void aClaimDeletesWhatPredecessorsHaveStaged() throws IOException {
    Path staged = root.resolve(Claim.DIRECTORY).resolve("staging-of-another-jvm");
    Files.createDirectories(staged);
    Files.createFile(staged.resolve("part-0"));

    claimed(checkpoint(), claim(7, "me"));

    assertFalse(Files.exists(staged));
  }

  @Test
  void aRefusedClaimDeletesNothing() throws IOException {
    claimed(checkpoint(), claim(8, "successor"));
    Path staged = root.resolve(Claim.DIRECTORY).resolve("staging-of-another-jvm");
    Files.createDirectories(staged);

    assertEquals(Verdict.HIGHER_TOKEN, claimed(checkpoint(), claim(7, "me")));

    assertTrue(Files.exists(staged));
  }

  @Test
  void jobsShareADirectoryTheirBatchesWriteTo() throws IOException {
    assertEquals(Verdict.CLAIMED, claimed(output(), claim(7, "me")));
    Configuration conf = new Configuration();
    Identity other = new Identity("x", "cluster", "other", "file");
    ClaimedDirectory theirs =
        ClaimedDirectory.ofOutput(root.toString(), FileSystem.getLocal(conf), conf, clients, other);

    assertEquals(Verdict.CLAIMED, claimed(theirs, other.claim(3)));

    assertTrue(Files.exists(root.resolve("_understudy/outputs/cluster/job/claim@1")));
    assertTrue(Files.exists(root.resolve("_understudy/outputs/cluster/other/claim@1")));
  }

  @Test
  void anotherJobsClaimOfTheWholeDirectoryCountsWhereAStreamKeepsItsLog() throws IOException {
    claimed(checkpoint(), new Claim(1, "x", "cluster", "other", "file"));
    assertEquals(Verdict.CLAIMED, claimed(output(), claim(7, "me")));

    Files.createDirectories(root.resolve("_spark_metadata"));

    assertEquals(Verdict.OTHER_JOB, claimed(output(), claim(8, "me")));
  }

  @Test
  void ourOwnClaimOfTheWholeDirectoryIsUsed() throws IOException {
    claimed(checkpoint(), claim(7, "predecessor"));

    assertEquals(Verdict.HIGHER_TOKEN, claimed(output(), claim(6, "me")));
    assertEquals(Verdict.CLAIMED, claimed(output(), claim(8, "me")));

    assertTrue(Files.exists(root.resolve("_understudy/claim@2")));
  }

  @Test
  void aDirectoryOfThisProcessAloneHasNoClaim() throws IOException {
    FileSystem files = FileSystem.getLocal(new Configuration());

    assertFalse(ClaimedDirectory.unclaimed(root.toString(), files).claimable());
  }
}
