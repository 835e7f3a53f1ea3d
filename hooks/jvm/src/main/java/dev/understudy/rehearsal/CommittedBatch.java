package dev.understudy.rehearsal;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.TreeSet;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A batch that was committed, and what {@code offsets} says of it, which holds the millisecond in
 * which it was planned: two histories of one checkpoint do not agree in that.
 */
record CommittedBatch(long number, String offsets) {
  /** The newest one; null if there is none. */
  static CommittedBatch newest(FileSystem fs, Path root) throws IOException {
    TreeSet<Long> commits = ReplayableBatch.numbers(fs, new Path(root, "commits"));
    return commits.isEmpty()
        ? null
        : new CommittedBatch(commits.last(), offsets(fs, root, commits.last()));
  }

  /** The version of the state after it. */
  long state() {
    return number + 1;
  }

  /** Whether the checkpoint still knows of this batch. */
  boolean isIn(FileSystem fs, Path root) throws IOException {
    try {
      return offsets.equals(offsets(fs, root, number));
    } catch (FileNotFoundException e) {
      return false;
    }
  }

  private static String offsets(FileSystem fs, Path root, long batch) throws IOException {
    try (InputStream in = fs.open(new Path(root, "offsets/" + batch))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
