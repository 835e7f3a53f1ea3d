package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import dev.understudy.fence.Claims.Verdict;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class ClaimsTest {
  @TempDir Path root;

  static Stream<Named<JsonNode>> order() throws IOException {
    return Vectors.all("claim_order.json");
  }

  private static Claim claim(long token, String holder) {
    return new Claim(token, holder, "cluster", "job", "file");
  }

  private Claims.Outcome claimed(Claim mine) throws IOException {
    return Claims.claim(new LocalClaims(root), null, mine, () -> true);
  }

  private Claim standing() throws IOException {
    return new LocalClaims(root).read().claim();
  }

  @ParameterizedTest
  @MethodSource("order")
  void aClaimFollowsAnotherOrIsRefusedAsTheVectorSays(JsonNode vector) throws IOException {
    ClaimStore.Standing standing =
        new ClaimStore.Standing("1", Vectors.claim(vector.get("standing")));

    FormerLocks former = FormerLocks.parse(vector.path("former").toString());

    Verdict verdict = Claims.judge(standing, Vectors.claim(vector.get("own")), former);

    assertEquals(vector.get("refused").isNull(), !verdict.refused());
    assertEquals(vector.get("refused").asText(""), verdict.reason);
  }

  @Test
  void aFreeRootIsClaimed() throws IOException {
    Claims.Outcome outcome = claimed(claim(7, "a"));

    assertEquals(Verdict.CLAIMED, outcome.verdict());
    assertFalse(outcome.followed());
    assertEquals(claim(7, "a"), standing());
  }

  @Test
  void aLowerTokenIsRefusedAndChangesNothing() throws IOException {
    claimed(claim(7, "a"));

    assertEquals(Verdict.HIGHER_TOKEN, claimed(claim(6, "a")).verdict());

    assertEquals(claim(7, "a"), standing());
  }

  @Test
  void theSameTokenOfTheSameHolderIsARepeatAndWritesNothing() throws IOException {
    claimed(claim(7, "a"));
    String revision = new LocalClaims(root).read().revision();

    assertEquals(Verdict.REPEAT, claimed(claim(7, "a")).verdict());

    assertEquals(revision, new LocalClaims(root).read().revision());
  }

  @Test
  void theSameTokenOfAnotherHolderIsRefused() throws IOException {
    claimed(claim(7, "a"));

    assertEquals(Verdict.OTHER_HOLDER, claimed(claim(7, "b")).verdict());

    assertEquals(claim(7, "a"), standing());
  }

  @Test
  void aHigherTokenFollows() throws IOException {
    claimed(claim(7, "a"));

    Claims.Outcome outcome = claimed(claim(8, "b"));

    assertEquals(Verdict.CLAIMED, outcome.verdict());
    assertTrue(outcome.followed());
    assertEquals(claim(8, "b"), standing());
  }

  @Test
  void aTornClaimIsNeverAFreeRoot() throws IOException {
    Vectors.written(root.resolve(Claim.DIRECTORY).resolve("claim@1"), new byte[0]);

    assertEquals(Verdict.UNREADABLE, claimed(claim(9, "a")).verdict());
  }

  @Test
  void nothingIsWrittenWhileTheGateIsClosed() throws IOException {
    Claims.Outcome outcome = Claims.claim(new LocalClaims(root), null, claim(7, "a"), () -> false);

    assertEquals(Verdict.GATE, outcome.verdict());
    assertTrue(new LocalClaims(root).read().nothing());
  }

  @Test
  void aGuessThatIsRightSavesTheFirstRead() throws IOException {
    claimed(claim(7, "a"));
    Counted store = new Counted(new LocalClaims(root));

    Claims.Outcome outcome =
        Claims.claim(store, new LocalClaims(root).read(), claim(8, "b"), () -> true);

    assertEquals(Verdict.CLAIMED, outcome.verdict());
    assertEquals(1, store.reads.get());
  }

  @Test
  void aGuessThatIsWrongDecidesNothing() throws IOException {
    claimed(claim(7, "a"));
    ClaimStore.Standing old = new LocalClaims(root).read();
    claimed(claim(9, "c"));

    Claims.Outcome outcome = Claims.claim(new LocalClaims(root), old, claim(8, "b"), () -> true);

    assertEquals(Verdict.HIGHER_TOKEN, outcome.verdict());
    assertEquals(claim(9, "c"), standing());
  }

  @Test
  void aRootWhoseClaimIsGoneIsRefusedWhereOneWasRecorded() throws IOException {
    Claims.Outcome outcome =
        Claims.claim(new LocalClaims(root), null, claim(7, "a"), FormerLocks.NONE, 6, () -> true);

    assertEquals(Verdict.MISSING, outcome.verdict());
    assertTrue(new LocalClaims(root).read().nothing());
  }

  @Test
  void aRootThatWasRestoredFromACopyIsRefused() throws IOException {
    claimed(claim(5, "a"));

    Claims.Outcome outcome =
        Claims.claim(new LocalClaims(root), null, claim(7, "a"), FormerLocks.NONE, 6, () -> true);

    assertEquals(Verdict.BEHIND, outcome.verdict());
  }

  @Test
  void aLostAnswerIsSettledByWhatStands() throws IOException {
    LocalClaims local = new LocalClaims(root);
    Counted lossy =
        new Counted(local) {
          @Override
          public boolean replace(Standing seen, Claim claim) throws IOException {
            local.replace(seen, claim);
            throw new IOException("the answer is lost");
          }
        };

    assertEquals(Verdict.CLAIMED, Claims.claim(lossy, null, claim(7, "a"), () -> true).verdict());
  }

  @Test
  void aStoreThatAlwaysFailsIsGivenUp() {
    Counted down =
        new Counted(new LocalClaims(root)) {
          @Override
          public boolean replace(Standing seen, Claim claim) throws IOException {
            throw new IOException("down");
          }
        };

    IOException raised =
        assertThrows(IOException.class, () -> Claims.claim(down, null, claim(7, "a"), () -> true));

    assertEquals("down", raised.getMessage());
  }

  /** A store that counts reads; the files behind it are real. */
  private static class Counted implements ClaimStore {
    final AtomicInteger reads = new AtomicInteger();
    private final ClaimStore store;

    Counted(ClaimStore store) {
      this.store = store;
    }

    @Override
    public Standing read() throws IOException {
      reads.incrementAndGet();
      return store.read();
    }

    @Override
    public boolean replace(Standing seen, Claim claim) throws IOException {
      return store.replace(seen, claim);
    }

    @Override
    public boolean stands(Standing ours) throws IOException {
      return store.stands(ours);
    }
  }
}
