package dev.understudy.savepoint;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.understudy.fence.Parallel;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A copy of a query's checkpoint between two of its batches, for a savepoint. What the driver's
 * Python calls, through Py4J.
 *
 * <p>Batches are held while it is made; what Spark's background threads do meanwhile goes on. They
 * drop entries and state that no recent batch needs, and a file that is gone once it is to be
 * copied was one of those. They also write snapshots of the state, which {@link CheckpointFiles}
 * lists in an order that never finds one without the files it refers to.
 *
 * <p>Not guaranteed: that the copy survives a loss of power, on a local disk.
 */
public final class CheckpointCopy {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem";

  private CheckpointCopy() {}

  /**
   * Copies what the last batch of {@code root} needs, and what the next one will, to {@code
   * target}; the list of it is written to {@code target + ".files"}, last. Nothing is copied of a
   * checkpoint without a committed batch. Within a bucket the store copies by itself where it can;
   * the digests of such files are not in the list before {@link #verify}.
   *
   * @return JSON: {@code batch} (-1 without one), {@code files}, {@code bytes}, {@code digest} of
   *     the list, and how many files were copied {@code within} the store
   * @throws FileAlreadyExistsException if something stands at {@code target}
   * @throws IOException if a batch is in flight, a file cannot be copied, or the time is over; what
   *     was copied stays, for {@link #discard}: batches are held, and a store that has not answered
   *     may take its time for that, too
   */
  public static String copy(String root, String target, Configuration conf, long withinMillis)
      throws IOException {
    Path from = new Path(root);
    Path to = new Path(target);
    FileSystem source = from.getFileSystem(conf);
    FileSystem goal = goal(to, conf);
    if (goal.exists(to) || goal.exists(list(to))) {
      throw new FileAlreadyExistsException(target + " is there already");
    }
    CheckpointFiles files = CheckpointFiles.of(source, source.makeQualified(from));
    if (files.batch() < 0) {
      return described(-1, new FileList(List.of()));
    }
    FileList copied = copy(source, files, goal, to, withinMillis);
    copied.write(goal, list(to), false);
    return described(files.batch(), copied);
  }

  /**
   * Reads every file of a copy. Digests that the list has are compared, and the others are put
   * there.
   *
   * @return the digest of the list as it is then
   * @throws IOException naming a file that is not as it was copied, or the time is over
   */
  public static String verify(String target, Configuration conf, long withinMillis)
      throws IOException {
    Path to = new Path(target);
    FileSystem goal = goal(to, conf);
    FileList wanted = FileList.read(goal, list(to));
    FileList found =
        new FileList(
            Parallel.each(
                wanted.entries(),
                withinMillis,
                entry -> {
                  FileList.Entry read = FileList.Entry.read(goal, to, entry.name());
                  if (!entry.is(read)) {
                    throw new IOException(new Path(to, entry.name()) + " is not as it was copied");
                  }
                  return read;
                }));
    if (wanted.unread() > 0) {
      found.write(goal, list(to), true);
    }
    return found.digest();
  }

  /** Removes a copy, whole or not. */
  public static void discard(String target, Configuration conf) throws IOException {
    Path to = new Path(target);
    FileSystem goal = goal(to, conf);
    goal.delete(list(to), false);
    goal.delete(to, true);
  }

  private static FileList copy(
      FileSystem source, CheckpointFiles files, FileSystem goal, Path to, long withinMillis)
      throws IOException {
    Set<String> needed = files.needed();
    StoreCopy store = null;
    if (source.getClass().getName().equals(S3A) && source.getUri().equals(goal.getUri())) {
      store = StoreCopy.within(source);
    }
    return new FileList(copied(source, files, goal, to, withinMillis, store, needed));
  }

  private static List<FileList.Entry> copied(
      FileSystem source,
      CheckpointFiles files,
      FileSystem goal,
      Path to,
      long withinMillis,
      StoreCopy store,
      Set<String> needed)
      throws IOException {
    List<FileList.Entry> entries =
        Parallel.each(
            files.names(),
            withinMillis,
            name -> {
              try {
                FileList.Entry done = store == null ? null : store.copy(files.root(), to, name);
                return done != null
                    ? done
                    : FileList.Entry.copy(source, files.root(), goal, to, name);
              } catch (FileNotFoundException e) {
                if (needed.contains(name)) {
                  throw e;
                }
                return null;
              }
            });
    List<FileList.Entry> copied = new ArrayList<>(entries);
    copied.removeIf(Objects::isNull);
    return copied;
  }

  /** On a local disk without Hadoop's checksums: the list has better ones. */
  private static FileSystem goal(Path target, Configuration conf) throws IOException {
    FileSystem files = target.getFileSystem(conf);
    return files instanceof LocalFileSystem local ? local.getRaw() : files;
  }

  private static Path list(Path target) {
    return target.suffix(FileList.SUFFIX);
  }

  private static String described(long batch, FileList files) {
    return JSON.createObjectNode()
        .put("batch", batch)
        .put("files", files.entries().size())
        .put("bytes", files.bytes())
        .put("digest", files.digest())
        .put("within", files.unread())
        .toString();
  }
}
