package dev.understudy.rehearsal;

import java.util.Arrays;
import java.util.function.Function;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileEntry;

/**
 * What was parsed of one log of a file source: its longest file, which is the last one that Spark
 * has compacted. It names every file that the source has ever read, and parsing it takes seconds
 * once there are 100,000.
 *
 * <p>Rehearsals fill it and the query that is started at the grant uses it. A file is always read;
 * only lines that were parsed before, byte for byte, are not parsed again. Spark compacts by
 * appending to what it has compacted before, so the next compacted file is mostly known. A log that
 * another writer has compacted differently, that lost entries, or that began again is parsed as if
 * nothing were known.
 */
final class ParsedLog {
  /** Below this, parsing costs nothing that a person would notice. */
  private static final int MIN_BYTES = 32 << 10;

  /** About 500,000 files. What is longer is parsed at every start, as Spark does. */
  private static final int MAX_BYTES = 64 << 20;

  /**
   * Whole lines, the first of which is the version, without the last line's end; and an entry for
   * each other line.
   */
  private static final class Known {
    final byte[] text;
    final FileEntry[] entries;

    Known(byte[] text, FileEntry[] entries) {
      this.text = text;
      this.entries = entries;
    }

    /** Whether {@code other} has these lines first, whole. */
    boolean begin(byte[] other) {
      int length = text.length;
      return length > 0
          && length <= other.length
          && (length == other.length || other[length] == '\n')
          && Arrays.equals(text, 0, length, other, 0, length);
    }

    /** The version, and the lines of {@code other} that follow these. */
    byte[] versionAndRest(byte[] other) {
      int version = lineLength(text);
      byte[] rest = Arrays.copyOf(text, version + other.length - text.length);
      System.arraycopy(other, text.length, rest, version, other.length - text.length);
      return rest;
    }

    FileEntry[] followedBy(FileEntry[] more) {
      FileEntry[] all = Arrays.copyOf(entries, entries.length + more.length);
      System.arraycopy(more, 0, all, entries.length, more.length);
      return all;
    }

    private static int lineLength(byte[] text) {
      int at = 0;
      while (at < text.length && text[at] != '\n') {
        at++;
      }
      return at;
    }
  }

  private volatile Known known = new Known(new byte[0], new FileEntry[0]);

  /**
   * The entries of a file of the log.
   *
   * @param parser Spark's: from such a file to its entries, one for each line after the first
   */
  FileEntry[] entries(byte[] text, Function<byte[], FileEntry[]> parser) {
    if (text.length < MIN_BYTES) {
      return parser.apply(text);
    }
    Known before = known;
    FileEntry[] entries;
    if (!before.begin(text)) {
      entries = parser.apply(text);
    } else if (before.text.length == text.length) {
      entries = before.entries;
    } else {
      entries = before.followedBy(parser.apply(before.versionAndRest(text)));
    }
    if (text.length <= MAX_BYTES && entries != before.entries) {
      known = new Known(text, entries);
    }
    return entries.clone(); // the caller's own
  }
}
