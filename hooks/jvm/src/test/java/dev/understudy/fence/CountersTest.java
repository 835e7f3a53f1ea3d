package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class CountersTest {
  @TempDir Path directory;

  static Stream<Named<JsonNode>> valid() throws IOException {
    return Vectors.valid("counters.json");
  }

  static Stream<Named<JsonNode>> all() throws IOException {
    return Vectors.all("counters.json");
  }

  private byte[] bytes() throws IOException {
    return Files.readAllBytes(directory.resolve("page"));
  }

  private Counters newPage() throws IOException {
    ByteBuffer page = ByteBuffer.allocate(SharedPage.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    page.putInt(0, Counters.MAGIC).putInt(4, Counters.VERSION);
    return Counters.map(Vectors.written(directory.resolve("page"), page.array()));
  }

  @ParameterizedTest
  @MethodSource("valid")
  void countsAreReadAsTheVectorSays(JsonNode vector) throws IOException {
    Counters counters =
        Counters.map(Vectors.written(directory.resolve("page"), Vectors.page(vector)));

    for (WriteOutcome outcome : WriteOutcome.values()) {
      assertEquals(vector.get(outcome.text).asLong(), counters.count(outcome));
    }
  }

  @ParameterizedTest
  @MethodSource("all")
  void aPageIsMappedIfAWriterMayGoOnWithIt(JsonNode vector) throws IOException {
    Path path = Vectors.written(directory.resolve("page"), Vectors.page(vector));

    if (vector.path("writable").asBoolean()) {
      Counters.map(path);
    } else {
      assertThrows(IOException.class, () -> Counters.map(path));
    }
  }

  @ParameterizedTest
  @MethodSource("valid")
  void commitsGiveThePageOfTheVector(JsonNode vector) throws IOException {
    Counters counters = newPage();

    for (JsonNode made : vector.get("commits_made")) {
      counters.committed(
          made.get("token").asLong(), made.get("root").asText(), made.get("batch").asLong());
    }

    byte[] expected = Vectors.page(vector);
    assertArrayEquals(from(72, expected), from(72, bytes()));
    assertArrayEquals(Arrays.copyOfRange(expected, 40, 48), Arrays.copyOfRange(bytes(), 40, 48));
    assertArrayEquals(Arrays.copyOfRange(expected, 8, 16), Arrays.copyOfRange(bytes(), 8, 16));
  }

  private static byte[] from(int at, byte[] page) {
    return Arrays.copyOfRange(page, at, page.length);
  }

  @Test
  void eachOutcomeHasItsOwnCount() throws IOException {
    Counters counters = newPage();

    counters.add(WriteOutcome.ACCEPTED);
    counters.add(WriteOutcome.REFUSED);
    counters.add(WriteOutcome.REFUSED);
    counters.add(WriteOutcome.UNKNOWN);

    ByteBuffer page = ByteBuffer.wrap(bytes()).order(ByteOrder.LITTLE_ENDIAN);
    assertEquals(1, page.getLong(16));
    assertEquals(2, page.getLong(24));
    assertEquals(1, page.getLong(32));
    assertEquals(2, counters.count(WriteOutcome.REFUSED));
  }

  @Test
  void aRootThatDoesNotFitIsCutBeforeACharacter() throws IOException {
    Counters counters = newPage();
    String fits = "/" + "a".repeat(3986);

    counters.committed(GatePage.token(1, 1), fits + "étc", 0);

    ByteBuffer page = ByteBuffer.wrap(bytes()).order(ByteOrder.LITTLE_ENDIAN);
    byte[] root = Arrays.copyOfRange(page.array(), 108, 108 + page.getInt(104));
    assertEquals(fits, new String(root, StandardCharsets.UTF_8));
  }

  @Test
  void theLogCountsWhatItWritesAndKnowsACommit() throws IOException {
    GatePage gate = new GatePage(directory);
    Path path = directory.resolve("log").resolve("fence.jsonl");
    FenceLog log = new FenceLog(path.toString(), "me", Counters.map(Counters.of(gate.path())));

    log.write(7, "publish", "/root/commits/3", WriteOutcome.ACCEPTED, "");
    log.write(7, "publish", "/root/commits/4", WriteOutcome.REFUSED, "revoked");
    log.count(7, "publish", "/root/state/0/0/1.delta", WriteOutcome.ACCEPTED);

    assertEquals(2, log.counted(WriteOutcome.ACCEPTED));
    assertEquals(1, log.counted(WriteOutcome.REFUSED));
    assertEquals(2, Files.readAllLines(path).size());
    assertTrue(Files.readString(path).contains("\"holder\":\"me\",\"op\":\"publish\""));
    ByteBuffer page =
        ByteBuffer.wrap(Files.readAllBytes(Counters.of(gate.path())))
            .order(ByteOrder.LITTLE_ENDIAN);
    assertEquals(1, page.getLong(40));
    assertEquals(3, page.getLong(72));
    assertEquals(7, page.getLong(80));
  }
}
