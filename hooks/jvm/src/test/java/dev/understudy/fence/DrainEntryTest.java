package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DrainEntryTest {
  private static final String ENTRY =
      "v1\n{\"batchWatermarkMs\":7,\"batchTimestampMs\":9,\"conf\":{\"a\":\"b\"}}\n{\"logOffset\":0}\n-";

  @Test
  void onlyTheWatermarkIsAnother() throws IOException {
    assertEquals(
        "v1\n{\"batchWatermarkMs\":253402300799000,\"batchTimestampMs\":9,\"conf\":{\"a\":\"b\"}}\n"
            + "{\"logOffset\":0}\n-",
        DrainEntry.drained(ENTRY));
  }

  @Test
  void anEntryThatDrainsIsKnown() throws IOException {
    assertTrue(DrainEntry.drains(DrainEntry.drained(ENTRY)));
    assertFalse(DrainEntry.drains(ENTRY));
  }

  @Test
  void anEntryOfAnotherVersionKeepsIt() throws IOException {
    String entry = "v2\n{\"batchWatermarkMs\":0,\"more\":{}}\na:1\nb:2";

    assertEquals(
        "v2\n{\"batchWatermarkMs\":253402300799000,\"more\":{}}\na:1\nb:2",
        DrainEntry.drained(entry));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"", "v1", "v1\nno json", "v1\n[]", "v1\n{}", "v1\n{\"batchWatermarkMs\":\"7\"}"})
  void whatSparkDoesNotWriteIsRefused(String entry) {
    assertThrows(IOException.class, () -> DrainEntry.drained(entry));
  }
}
