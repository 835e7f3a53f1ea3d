package dev.understudy.rehearsal;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The batch of a live checkpoint that can be run again: both {@code offsets/N} and {@code
 * commits/N} exist, and {@code offsets/N-1}, which Spark needs to know where N began.
 *
 * <p>Of the last {@value #LOOK_BACK} such batches the newest one that read something is taken: with
 * a watermark every other batch reads nothing and only drops old state, and running that one again
 * would leave the code for rows cold.
 */
record ReplayableBatch(
    FileSystem fs,
    Path root,
    long batch,
    long newest,
    long watermarkMillis,
    List<Range> ranges,
    Map<String, Long> lastEntries) {
  static final int LOOK_BACK = 10;
  private static final ObjectMapper JSON = new ObjectMapper();

  /** What one source read: its offsets as logged, {@code "-"} where there was none. */
  record Range(String source, String from, String to) {
    boolean readsSomething() {
      return !to.equals("-") && !to.equals(from);
    }

    /**
     * The entries of {@code sources/<n>} in this range, for a file source, as (first, last); null
     * for any other source.
     */
    long[] entries() {
      Long end = logOffset(to);
      if (end == null) {
        return null;
      }
      Long start = logOffset(from);
      return new long[] {start == null ? 0 : start + 1, end};
    }

    /**
     * Kafka's messages in this range, by the offsets of each topic's partitions; 0 for any other
     * source.
     */
    long messages() {
      Map<String, Long> start = partitions(from);
      long found = 0;
      for (Map.Entry<String, Long> end : partitions(to).entrySet()) {
        found += Math.max(0, end.getValue() - start.getOrDefault(end.getKey(), 0L));
      }
      return found;
    }
  }

  /** Returns the batch to run again; null if there is none yet. */
  static ReplayableBatch find(FileSystem fs, Path root) throws IOException {
    TreeSet<Long> offsets = numbers(fs, new Path(root, "offsets"));
    TreeSet<Long> commits = numbers(fs, new Path(root, "commits"));
    commits.retainAll(offsets);
    commits.removeIf(batch -> batch > 0 && !offsets.contains(batch - 1));
    ReplayableBatch newest = null;
    int looked = 0;
    for (long batch : commits.descendingSet()) {
      ReplayableBatch found = read(fs, root, batch, commits.last());
      if (found.readsSomething()) {
        return found;
      }
      newest = newest == null ? found : newest;
      if (++looked == LOOK_BACK) {
        break;
      }
    }
    return newest;
  }

  private boolean readsSomething() {
    return ranges.stream().anyMatch(Range::readsSomething);
  }

  /**
   * The newest entry of {@code sources/<name>} that batch N refers to; without limit where that is
   * not known.
   */
  long lastSourceEntry(String name) {
    return lastEntries.getOrDefault(name, Long.MAX_VALUE);
  }

  /** Whether the leader has committed more since, and so may have purged what this batch needs. */
  boolean leftBehind() {
    try {
      TreeSet<Long> commits = numbers(fs, new Path(root, "commits"));
      return commits.isEmpty() || commits.last() > newest;
    } catch (IOException e) {
      return false;
    }
  }

  private static ReplayableBatch read(FileSystem fs, Path root, long batch, long newest)
      throws IOException {
    List<String> now = lines(fs, new Path(root, "offsets/" + batch));
    Map<String, String> to = offsets(now);
    Map<String, String> from =
        batch == 0 ? Map.of() : offsets(lines(fs, new Path(root, "offsets/" + (batch - 1))));
    List<Range> ranges = new ArrayList<>();
    Map<String, Long> entries = new LinkedHashMap<>();
    to.forEach(
        (source, offset) -> {
          Range range = new Range(source, from.getOrDefault(source, "-"), offset);
          ranges.add(range);
          Long entry = logOffset(offset);
          if (entry != null) {
            entries.put(source, entry);
          }
        });
    Map<String, Long> bySource = entries;
    if (entries.size() != to.size()
        || !directories(fs, new Path(root, "sources")).equals(entries.keySet())) {
      // Sources that are not files, or a source read twice by one query: the n-th offset need not
      // be that of sources/n. Showing an
      // entry too many does no harm (its files count as seen); hiding one that is needed would.
      bySource = Map.of();
    }
    long watermark =
        now.size() > 1 ? JSON.readTree(now.get(1)).path("batchWatermarkMs").asLong(0) : 0;
    return new ReplayableBatch(fs, root, batch, newest, watermark, List.copyOf(ranges), bySource);
  }

  /**
   * Offsets by source, in the order of the log: version 1 has one per line, version 2 {@code
   * name:offset}.
   */
  private static Map<String, String> offsets(List<String> lines) {
    boolean named = !lines.isEmpty() && lines.get(0).equals("v2");
    Map<String, String> found = new LinkedHashMap<>();
    for (int i = 2; i < lines.size(); i++) {
      String line = lines.get(i);
      int colon = line.indexOf(':');
      if (named && colon > 0) {
        found.put(line.substring(0, colon), line.substring(colon + 1));
      } else {
        found.put(String.valueOf(i - 2), line);
      }
    }
    return found;
  }

  private static Long logOffset(String offset) {
    try {
      JsonNode node = JSON.readTree(offset).path("logOffset");
      return node.canConvertToLong() ? node.asLong() : null;
    } catch (IOException e) {
      return null;
    }
  }

  /** Offsets as Kafka's source logs them, {@code {"topic":{"0":17}}}, by topic and partition. */
  private static Map<String, Long> partitions(String offset) {
    Map<String, Long> found = new LinkedHashMap<>();
    try {
      for (Map.Entry<String, JsonNode> topic : JSON.readTree(offset).properties()) {
        for (Map.Entry<String, JsonNode> partition : topic.getValue().properties()) {
          found.put(topic.getKey() + " " + partition.getKey(), partition.getValue().asLong());
        }
      }
    } catch (IOException e) {
      return Map.of(); // none of Kafka's
    }
    return found;
  }

  /** A file that a file source logged for one of its entries. */
  record InputFile(Path path, long batch) {}

  /**
   * The files of entries first..last of a file source's log; fewer where the leader has dropped
   * entries already.
   */
  List<InputFile> files(String source, long first, long last) throws IOException {
    List<InputFile> found = new ArrayList<>();
    for (long entry = first; entry <= last; entry++) {
      List<String> lines;
      try {
        lines = lines(fs, new Path(root, "sources/" + source + "/" + entry));
      } catch (FileNotFoundException e) {
        lines = lines(fs, new Path(root, "sources/" + source + "/" + entry + ".compact"));
      }
      for (String line : lines.subList(1, lines.size())) {
        JsonNode file = JSON.readTree(line);
        if (file.path("batchId").asLong(entry) == entry) {
          found.add(new InputFile(new Path(URI.create(file.path("path").asText())), entry));
        }
      }
    }
    return found;
  }

  private static List<String> lines(FileSystem fs, Path path) throws IOException {
    try (InputStream in = fs.open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
    }
  }

  /** The numbers of a log's entries. */
  static TreeSet<Long> numbers(FileSystem fs, Path directory) throws IOException {
    TreeSet<Long> found = new TreeSet<>();
    for (FileStatus status : list(fs, directory)) {
      String name = status.getPath().getName();
      if (name.matches("\\d{1,18}")) {
        found.add(Long.valueOf(name));
      }
    }
    return found;
  }

  private static java.util.Set<String> directories(FileSystem fs, Path directory)
      throws IOException {
    java.util.Set<String> found = new java.util.HashSet<>();
    for (FileStatus status : list(fs, directory)) {
      found.add(status.getPath().getName());
    }
    return found;
  }

  private static FileStatus[] list(FileSystem fs, Path directory) throws IOException {
    try {
      return fs.listStatus(directory);
    } catch (FileNotFoundException e) {
      return new FileStatus[0];
    }
  }
}
