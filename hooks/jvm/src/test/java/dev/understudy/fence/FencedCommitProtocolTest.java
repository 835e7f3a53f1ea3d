package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

class FencedCommitProtocolTest {
  @Test
  void noTwoTokensShareThePlaceOfTheirFinishedTasks() {
    Set<Integer> places = new HashSet<>();
    for (int epoch = 1; epoch <= 500; epoch++) {
      for (int attempt = 1; attempt <= 100; attempt++) {
        int place = FencedCommitProtocol.attempt(GatePage.token(epoch, attempt));
        assertTrue(place > 0);
        places.add(place);
      }
    }
    assertEquals(50_000, places.size());
  }
}
