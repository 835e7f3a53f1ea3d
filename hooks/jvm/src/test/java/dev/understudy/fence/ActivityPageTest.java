package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class ActivityPageTest {
  @TempDir Path directory;

  static Stream<Named<JsonNode>> valid() throws IOException {
    return Vectors.valid("activity.json");
  }

  static Stream<Named<JsonNode>> invalid() throws IOException {
    return Vectors.invalid("activity.json");
  }

  private Path written(byte[] page) throws IOException {
    return Vectors.written(directory.resolve("activity"), page);
  }

  private ByteBuffer page() throws IOException {
    return ByteBuffer.wrap(Files.readAllBytes(directory.resolve("activity")))
        .order(ByteOrder.LITTLE_ENDIAN);
  }

  @ParameterizedTest
  @MethodSource("valid")
  void activityIsReadAsTheVectorSays(JsonNode vector) {
    Map<Long, Long> alive = new TreeMap<>();
    for (JsonNode each : vector.get("alive")) {
      alive.put(each.get("pid").asLong(), each.get("started").asLong());
    }
    ByteBuffer page = ByteBuffer.allocateDirect(SharedPage.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    page.put(0, Vectors.page(vector));

    long running = ActivityPage.running(page, pid -> alive.getOrDefault(pid, -1L));

    assertEquals(vector.get("running").asLong(), running);
  }

  @ParameterizedTest
  @MethodSource("invalid")
  void aPageThatIsCutShortIsNotMapped(JsonNode vector) throws IOException {
    Path path = written(Vectors.page(vector));

    assertThrows(IOException.class, () -> ActivityPage.map(path));
  }

  @Test
  void thisProcessCountsInASlotThatNamesIt() throws IOException {
    ActivityPage activity = ActivityPage.map(written(new byte[SharedPage.BYTES]));

    activity.add(2);

    long pid = ProcessHandle.current().pid();
    assertEquals(2, activity.running());
    assertEquals(pid, page().getLong(32));
    assertEquals(ProcessStat.startedAt(pid), page().getLong(40));
    assertEquals(2, page().getLong(48));
    activity.add(-2);
    assertEquals(0, activity.running());
  }

  @Test
  void theSlotOfADeadProcessIsTaken() throws IOException {
    ByteBuffer page = ByteBuffer.allocate(SharedPage.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    page.putLong(32, ProcessHandle.current().pid()).putLong(40, 1).putLong(48, 9);

    ActivityPage activity = ActivityPage.map(written(page.array()));

    assertEquals(0, activity.running());
    assertEquals(0, page().getLong(48));
  }

  @Test
  void aProcessThatFindsNoSlotCountsAllTheSame() throws IOException {
    long pid = ProcessHandle.current().pid();
    ByteBuffer page = ByteBuffer.allocate(SharedPage.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    for (int at = 32; at < SharedPage.BYTES; at += 32) {
      page.putLong(at, pid).putLong(at + 8, ProcessStat.startedAt(pid));
    }

    ActivityPage activity = ActivityPage.map(written(page.array()));
    activity.add(1);

    assertEquals(1, activity.running());
    assertEquals(1, page().getLong(0));
  }
}
