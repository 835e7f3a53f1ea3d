package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class GateTest {
  @TempDir Path directory;

  static Stream<Named<JsonNode>> valid() throws IOException {
    return Vectors.valid("gate.json");
  }

  static Stream<Named<JsonNode>> invalid() throws IOException {
    return Vectors.invalid("gate.json");
  }

  private static Gate.State state(JsonNode vector) {
    return Gate.State.valueOf(vector.get("state").asText().toUpperCase(Locale.ROOT));
  }

  @ParameterizedTest
  @MethodSource("valid")
  void aGateIsReadAsTheVectorSays(JsonNode vector) throws IOException {
    Gate gate = new GatePage(directory).put(Vectors.page(vector)).map();

    Gate.View expected =
        new Gate.View(
            vector.get("token").asLong(),
            vector.get("close").get(0).asLong(),
            vector.get("close").get(1).asLong(),
            vector.get("kill").get(0).asLong(),
            vector.get("kill").get(1).asLong(),
            vector.get("park").get(0).asLong(),
            vector.get("park").get(1).asLong(),
            state(vector));
    assertEquals(expected, gate.read());
  }

  @ParameterizedTest
  @MethodSource("valid")
  void whatAGateMeansAtAMomentIsWhatTheVectorSays(JsonNode vector) throws IOException {
    Gate.View view = new GatePage(directory).put(Vectors.page(vector)).map().read();

    for (JsonNode at : vector.path("at")) {
      Moment now = new Moment(at.get("boottime").asLong(), at.get("monotonic").asLong());
      assertEquals(state(at), view.stateAt(now));
      assertEquals(at.get("kill_due").asBoolean(), view.killDue(now));
      assertEquals(at.get("park_due").asBoolean(), view.parkDue(now));
    }
  }

  @ParameterizedTest
  @MethodSource("invalid")
  void anInvalidGateReadsAsClosedOrIsNotMapped(JsonNode vector) throws IOException {
    GatePage page = new GatePage(directory);
    if (Vectors.isShort(vector)) {
      page.put(Vectors.page(vector));
      assertThrows(IOException.class, page::map);
      return;
    }
    Gate gate = page.map();
    page.put(Vectors.page(vector));

    assertNull(gate.read());
    assertFalse(gate.isOpen(GatePage.token(7, 2)));
  }

  @Test
  void anOpenGateIsOpenForItsTokenOnly() throws IOException {
    Gate gate = new GatePage(directory).write(Gate.State.OPEN, GatePage.token(5, 1)).map();

    assertTrue(gate.isOpen(GatePage.token(5, 1)));
    assertFalse(gate.isOpen(GatePage.token(5, 2)));
  }

  @Test
  void revokedIsFinalWhateverThePageShowsLater() throws IOException {
    GatePage page = new GatePage(directory).write(Gate.State.REVOKED, GatePage.token(5, 1));
    Gate gate = page.map();
    assertEquals(Gate.State.REVOKED, gate.read().state());

    page.write(Gate.State.OPEN, GatePage.token(5, 1));

    assertEquals(Gate.State.REVOKED, gate.read().state());
    assertFalse(gate.isOpen(GatePage.token(5, 1)));
  }

  @Test
  void aGateThatIsNotRevokedFollowsItsPage() throws IOException {
    GatePage page = new GatePage(directory);
    Gate gate = page.map();

    for (Gate.State state : new Gate.State[] {Gate.State.OPEN, Gate.State.CLOSED}) {
      page.write(state, GatePage.token(5, 1));
      assertEquals(state, gate.read().state());
    }
  }

  @Test
  void noGateIsMadeWhereThereIsNone() throws IOException {
    GatePage page = new GatePage(directory);
    Files.delete(page.path());

    assertThrows(NoSuchFileException.class, page::map);
    assertFalse(Files.exists(page.path()));
  }

  @Test
  void noActivityPageIsMadeWhereThereIsNone() throws IOException {
    GatePage page = new GatePage(directory);
    Path activity = Path.of(page.path() + ".activity");
    Files.delete(activity);

    assertThrows(NoSuchFileException.class, page::map);
    assertFalse(Files.exists(activity));
  }

  @Test
  void theClocksOfThisMachineCanBeRead() {
    Moment now = Moment.now();

    assertNotNull(now);
    assertTrue(now.boottime() < Long.MAX_VALUE);
    assertTrue(now.boottime() > 0);
  }

  @Test
  void uptimeIsRoundedUpAndAnythingElseIsPastEveryDeadline() {
    assertEquals(123_460_000_000L, uptime("123.45 99.00\n"));
    assertEquals(10_000_000L, uptime("0.00 0.00\n"));
    for (String damaged :
        new String[] {"", "123 9", "123.4 9", "123.456 9", "12x.45 9", "-1.00 9"}) {
      assertEquals(Long.MAX_VALUE, uptime(damaged), damaged);
    }
  }

  private static long uptime(String text) {
    byte[] bytes = text.getBytes(java.nio.charset.StandardCharsets.US_ASCII);
    return Moment.parseUptime(bytes, bytes.length);
  }
}
