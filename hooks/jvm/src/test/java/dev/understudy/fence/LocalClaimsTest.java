package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LocalClaimsTest {
  private static final int RACERS = 8;

  @TempDir Path root;

  private static Claim claim(long token, String holder) {
    return new Claim(token, holder, "cluster", "job", "file");
  }

  private Set<String> files() throws IOException {
    try (Stream<Path> entries = Files.list(root.resolve(Claim.DIRECTORY))) {
      return entries
          .map(each -> each.getFileName().toString())
          .collect(Collectors.toCollection(TreeSet::new));
    }
  }

  @Test
  void aRootWithoutADirectoryHasNoClaim() throws IOException {
    assertTrue(new LocalClaims(root).read().nothing());
    assertFalse(Files.exists(root.resolve(Claim.DIRECTORY)));
  }

  @Test
  void whatIsWrittenIsRead() throws IOException {
    LocalClaims claims = new LocalClaims(root);

    assertTrue(claims.replace(ClaimStore.Standing.NOTHING, claim(7, "a")));

    assertEquals(new ClaimStore.Standing("1", claim(7, "a")), claims.read());
    assertEquals(Set.of("claim@1"), files());
  }

  @Test
  void onlyWhatWasSeenIsReplaced() throws IOException {
    LocalClaims claims = new LocalClaims(root);
    claims.replace(ClaimStore.Standing.NOTHING, claim(7, "a"));
    ClaimStore.Standing seen = claims.read();
    assertTrue(claims.replace(seen, claim(8, "b")));

    assertFalse(claims.replace(seen, claim(9, "c")));
    assertFalse(claims.replace(ClaimStore.Standing.NOTHING, claim(9, "c")));

    assertEquals(claim(8, "b"), claims.read().claim());
  }

  @Test
  void aNumberThatOthersHavePassedAndRemovedIsNotTheClaim() throws IOException {
    LocalClaims claims = new LocalClaims(root);
    claims.replace(ClaimStore.Standing.NOTHING, claim(1, "a"));
    ClaimStore.Standing seen = claims.read();
    for (long token = 2; token <= 5; token++) {
      claims.replace(claims.read(), claim(token, "b"));
    }
    assertEquals(Set.of("claim@4", "claim@5"), files());

    assertFalse(claims.replace(seen, claim(9, "late")));

    assertEquals(claim(5, "b"), claims.read().claim());
    assertEquals(Set.of("claim@4", "claim@5"), files());
  }

  @Test
  void aClaimStandsUntilASuccessorIsThere() throws IOException {
    LocalClaims claims = new LocalClaims(root);
    claims.replace(ClaimStore.Standing.NOTHING, claim(1, "a"));
    ClaimStore.Standing first = claims.read();
    assertTrue(claims.stands(first));

    claims.replace(first, claim(2, "b"));
    assertFalse(claims.stands(first));
    claims.replace(claims.read(), claim(3, "c"));
    claims.replace(claims.read(), claim(4, "d"));

    assertFalse(claims.stands(first));
    assertTrue(claims.stands(claims.read()));
  }

  @Test
  void aTornClaimStandsAndCannotBeUnderstood() throws IOException {
    byte[] whole = claim(7, "a").bytes();
    for (int length : new int[] {0, 1, whole.length / 2, whole.length - 2}) {
      byte[] torn = java.util.Arrays.copyOf(whole, length);
      Vectors.written(root.resolve(Claim.DIRECTORY).resolve("claim@3"), torn);

      ClaimStore.Standing standing = new LocalClaims(root).read();

      assertFalse(standing.nothing());
      assertNull(standing.claim());
    }
  }

  @Test
  void filesOfOtherNamesAreNoClaims() throws IOException {
    for (String name : List.of("claim", "claim@", "claim@x", ".claim-1.tmp")) {
      Vectors.written(root.resolve(Claim.DIRECTORY).resolve(name), claim(7, "a").bytes());
    }

    assertTrue(new LocalClaims(root).read().nothing());
  }

  @Test
  void oneOfManyWritersWins() throws Exception {
    for (int round = 0; round < 20; round++) {
      ClaimStore.Standing seen = new LocalClaims(root).read();
      int token = round;
      ExecutorService racers = Executors.newFixedThreadPool(RACERS);
      try {
        List<Callable<Boolean>> writes = new ArrayList<>();
        for (int racer = 0; racer < RACERS; racer++) {
          Claim mine = claim(token, "racer-" + racer);
          writes.add(() -> new LocalClaims(root).replace(seen, mine));
        }
        int won = 0;
        for (Future<Boolean> each : racers.invokeAll(writes)) {
          won += each.get() ? 1 : 0;
        }
        assertEquals(1, won);
      } finally {
        racers.shutdownNow();
      }
    }
  }
}
