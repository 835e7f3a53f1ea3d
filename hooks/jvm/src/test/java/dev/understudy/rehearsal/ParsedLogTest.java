package dev.understudy.rehearsal;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.stream.IntStream;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileEntry;
import org.junit.jupiter.api.Test;

class ParsedLogTest {
  private static final int MANY = 2000; // lines, which are more bytes than are worth remembering

  private final ParsedLog log = new ParsedLog();
  private int parsed;

  /** As Spark's: the first line is the version. */
  private FileEntry[] parse(byte[] text) {
    String[] lines = new String(text, UTF_8).split("\n", -1);
    assertEquals("v1", lines[0]);
    parsed = lines.length - 1;
    return IntStream.range(1, lines.length)
        .mapToObj(at -> new FileEntry(lines[at], at, at))
        .toArray(FileEntry[]::new);
  }

  private static String lines(int first, int end) {
    StringBuilder text = new StringBuilder();
    IntStream.range(first, end).forEach(at -> text.append("\n/input/file-%06d".formatted(at)));
    return text.toString();
  }

  private void assertNames(String text, int linesToParse) {
    parsed = 0;
    FileEntry[] found = log.entries(text.getBytes(UTF_8), this::parse);
    String[] names = new String[found.length];
    for (int i = 0; i < found.length; i++) {
      names[i] = found[i].path();
    }
    String[] lines = text.split("\n", -1);
    assertArrayEquals(Arrays.copyOfRange(lines, 1, lines.length), names);
    assertEquals(linesToParse, parsed);
  }

  @Test
  void onlyWhatACompactionHasAddedIsParsed() {
    assertNames("v1" + lines(0, MANY), MANY);
    assertNames("v1" + lines(0, MANY), 0);
    assertNames("v1" + lines(0, MANY + 10), 10);
    assertNames("v1" + lines(0, MANY + 10), 0);
  }

  @Test
  void aShorterFileIsParsedWhole() {
    assertNames("v1" + lines(0, MANY), MANY);
    assertNames("v1" + lines(0, MANY - 10), MANY - 10);
  }

  @Test
  void aFileThatAnotherWriterCompactedDifferentlyIsParsedWhole() {
    assertNames("v1" + lines(0, MANY), MANY);
    assertNames("v1" + lines(1, MANY + 1), MANY);
    assertNames("v1" + lines(0, MANY - 1) + "\n/another", MANY);
  }

  @Test
  void aLineThatWasPartOfAKnownOneIsNotTakenForIt() {
    assertNames("v1" + lines(0, MANY), MANY);
    assertNames("v1" + lines(0, MANY) + "-and-more" + lines(0, 1), MANY + 1);
  }

  @Test
  void aSmallFileIsNeitherRememberedNorForgetsTheKnownOne() {
    assertNames("v1" + lines(0, MANY), MANY);
    assertNames("v1" + lines(MANY, MANY + 1), 1);
    assertNames("v1", 0);
    assertNames("v1" + lines(0, MANY), 0);
  }

  @Test
  void whatACallerChangesIsItsOwn() {
    byte[] text = ("v1" + lines(0, MANY)).getBytes(UTF_8);
    log.entries(text, this::parse)[0] = null;
    assertEquals("/input/file-000000", log.entries(text, this::parse)[0].path());
    log.entries(text, this::parse)[0] = null;
    assertEquals("/input/file-000000", log.entries(text, this::parse)[0].path());
  }
}
