package dev.understudy.savepoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The files of a checkpoint that a copy of it needs, at the end of batch N.
 *
 * <p>A directory is listed before those below it. RocksDB's snapshot refers to files in {@code
 * SSTs/}, which are written before it: of each snapshot that is found, the files are found, too.
 *
 * @param root qualified
 * @param batch N; -1 without a committed batch, and then there are no names
 * @param names relative to the root
 */
record CheckpointFiles(Path root, long batch, List<String> names) {
  /** A rehearsal runs one of that many last batches again, from the state before it. */
  private static final int LOOK_BACK = 10;

  private static final String OFFSETS = "offsets/";
  private static final String COMMITS = "commits/";
  private static final String METADATA = "metadata";

  /** Of Understudy: the claim, which is not the copy's. */
  private static final String OURS = "_understudy";

  private static final Pattern NUMBER = Pattern.compile("\\d{1,18}");

  /** State on HDFS: version V is the newest snapshot up to V, and every delta after it. */
  private static final Pattern STATE = Pattern.compile("(\\d{1,18})(?:_[^.]+)?\\.(delta|snapshot)");

  /**
   * @throws IOException if a batch is in flight
   */
  static CheckpointFiles of(FileSystem files, Path root) throws IOException {
    List<String> names = new ArrayList<>();
    long batch = -1;
    List<String> committed = list(files, root, COMMITS);
    if (!committed.isEmpty()) {
      batch = highest(committed, COMMITS);
      collect(files, root, "", batch, names);
    }
    long begun = highest(list(files, root, OFFSETS), OFFSETS);
    if (begun != batch) {
      throw new IOException(root + ": batch " + begun + " is not committed");
    }
    return new CheckpointFiles(root, batch, List.copyOf(names));
  }

  /** What the copy cannot do without, whichever state the query has. */
  Set<String> needed() {
    return Set.of(METADATA, OFFSETS + batch, COMMITS + batch);
  }

  private static void collect(
      FileSystem files, Path root, String directory, long batch, List<String> found)
      throws IOException {
    List<String> names = new ArrayList<>();
    List<String> below = new ArrayList<>();
    Path here = directory.isEmpty() ? root : new Path(root, directory);
    for (FileStatus status : statuses(files, here)) {
      String name = status.getPath().getName();
      if (name.startsWith(".") || (directory.isEmpty() && name.equals(OURS))) {
        continue; // what is being written, and checksums, which the file system keeps by itself
      }
      if (status.isDirectory()) {
        below.add(directory + name + "/");
      } else {
        names.add(name);
      }
    }
    long oldest = oldestState(names, batch);
    for (String name : names) {
      if (version(name) >= oldest) {
        found.add(directory + name);
      }
    }
    for (String each : below) {
      collect(files, root, each, batch, found);
    }
  }

  /** The version of the state from which on all is needed; 0 where nothing can be left out. */
  private static long oldestState(List<String> names, long batch) {
    long oldest = 0;
    for (String name : names) {
      long version = version(name);
      if (name.endsWith(".snapshot") && version <= batch - LOOK_BACK && version != Long.MAX_VALUE) {
        oldest = Math.max(oldest, version);
      }
    }
    return oldest;
  }

  /** The version of a file of state on HDFS; endless for any other file. */
  private static long version(String name) {
    Matcher matcher = STATE.matcher(name);
    return matcher.matches() ? Long.parseLong(matcher.group(1)) : Long.MAX_VALUE;
  }

  private static List<String> list(FileSystem files, Path root, String directory)
      throws IOException {
    List<String> found = new ArrayList<>();
    for (FileStatus status : statuses(files, new Path(root, directory))) {
      if (NUMBER.matcher(status.getPath().getName()).matches()) {
        found.add(directory + status.getPath().getName());
      }
    }
    return found;
  }

  private static long highest(List<String> entries, String log) {
    return entries.stream()
        .mapToLong(entry -> Long.parseLong(entry.substring(log.length())))
        .max()
        .orElse(-1);
  }

  private static FileStatus[] statuses(FileSystem files, Path directory) throws IOException {
    try {
      return files.listStatus(directory);
    } catch (FileNotFoundException e) {
      return new FileStatus[0];
    }
  }
}
