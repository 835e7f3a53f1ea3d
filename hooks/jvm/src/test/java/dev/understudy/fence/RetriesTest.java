package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RetriesTest {
  private final IOException refusedConnection = new IOException(new ConnectException("refused"));
  private final IOException timedOut = new SocketTimeoutException("late");
  private final IOException broken = new SocketException("reset");

  private static void fails(Retries retries, IOException failure) {
    assertSame(failure, assertThrows(IOException.class, () -> retries.pause(failure)));
  }

  @ParameterizedTest
  @CsvSource({
    "409, NOT_DONE",
    "429, NOT_DONE",
    "503, NOT_DONE",
    "500, OVER",
    "502, UNANSWERED",
    "504, UNANSWERED",
    "403, UNKNOWN",
    "404, UNKNOWN",
    "0, UNKNOWN",
  })
  void whatAnAnswerTellsOfARequest(int status, Failure failure) {
    assertEquals(failure, Failure.of(status));
  }

  @Test
  void whatAFailureTellsOfARequest() {
    assertEquals(Failure.NOT_DONE, Failure.of(refusedConnection));
    assertEquals(Failure.NOT_DONE, Failure.of(new UnknownHostException("h")));
    assertEquals(Failure.UNANSWERED, Failure.of(timedOut));
    assertEquals(Failure.BROKEN, Failure.of(broken));
    assertEquals(Failure.BROKEN, Failure.of(new IOException(new EOFException())));
    assertEquals(Failure.UNKNOWN, Failure.of(new IOException("no")));
    IOException refusedInTheEnd = new SocketTimeoutException("late");
    refusedInTheEnd.initCause(new ConnectException("refused"));
    assertEquals(Failure.NOT_DONE, Failure.of(refusedInTheEnd));
  }

  @Test
  void aWriteIsSentAgainOnlyWhileItCertainlyWasNotDone() throws IOException {
    Retries.ofWrite().pause(refusedConnection);

    fails(Retries.ofWrite(), timedOut);
    fails(Retries.ofWrite(), broken);
  }

  @Test
  void whatMayBeDoneTwiceIsSentAgainAlsoAfterALostAnswer() throws IOException {
    Retries.ofRepeatable().pause(refusedConnection);
    Retries.ofRepeatable().pause(timedOut);
    Retries.ofRepeatable().pause(broken);

    fails(Retries.ofRepeatable(), new IOException("no"));
  }

  @Test
  void aClaimIsTriedAgainAfterAnyFailureButAStop() throws IOException {
    Retries.ofClaim(1).pause(refusedConnection);
    Retries.ofClaim(1).pause(timedOut);
    Retries.ofClaim(1).pause(broken);

    fails(Retries.ofClaim(1), new InterruptedIOException("stop"));
  }

  @Test
  void anInterruptedPauseEndsAndKeepsTheInterrupt() {
    Thread.currentThread().interrupt();

    InterruptedIOException raised =
        assertThrows(
            InterruptedIOException.class, () -> Retries.ofWrite().pause(refusedConnection));

    assertTrue(Thread.interrupted());
    assertSame(refusedConnection, raised.getCause());
  }

  @Test
  void pausesDoubleUpToTwoSecondsAndAreJitteredByHalf() {
    assertEquals(25, Retries.pauseMillis(0, 0));
    assertEquals(49, Retries.pauseMillis(0, 0.99));
    assertEquals(50, Retries.pauseMillis(1, 0));
    assertEquals(1_000, Retries.pauseMillis(9, 0));
    assertEquals(1_000, Retries.pauseMillis(60, 0));
    assertEquals(1_999, Retries.pauseMillis(60, 0.9999));
  }
}
