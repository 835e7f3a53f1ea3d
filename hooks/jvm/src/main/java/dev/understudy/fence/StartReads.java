package dev.understudy.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * What the start of a query reads of its checkpoint in an object store, asked for at once when the
 * checkpoint has been claimed. Spark asks for one thing after the other: at 100 ms each, that is
 * seconds.
 *
 * <p>From its claim on, no other process begins a write there. So what a list or a look has said
 * holds until this process writes there itself ({@link #forget}), and for {@value #FRESH_SECONDS} s
 * at most. A list answers for what is missing, too. What a predecessor sent before its gate closed
 * may still land, as it may after a list of Spark's: then the slot is found taken.
 *
 * <p>A request that fails is as if it had not been sent: the reader asks the store, and gets its
 * answer.
 */
final class StartReads {
  /** How long what a store has said is taken for true. */
  static final long FRESH_SECONDS = 5;

  static final long FRESH_NANOS = TimeUnit.SECONDS.toNanos(FRESH_SECONDS);

  private static final Map<String, StartReads> BY_ROOT = new ConcurrentHashMap<>();

  private final Requests store;
  private final long began = System.nanoTime();
  private final Map<String, CompletableFuture<FileStatus[]>> lists = new ConcurrentHashMap<>();
  private final Map<String, CompletableFuture<FileStatus>> looks = new ConcurrentHashMap<>();

  /** What is sent to the store. Each begins to fetch what is read next. */
  interface Requests {
    FileStatus[] list(Path directory) throws IOException;

    FileStatus look(Path path) throws IOException;

    /** How a path is named here. */
    String key(Path path);
  }

  private StartReads(Requests store) {
    this.store = store;
  }

  /** The checkpoint has been claimed, and a query is going to start from it. */
  static void begin(Path root, Requests store) {
    StartReads reads = new StartReads(store);
    reads.list(root);
    reads.list(new Path(root, CommittedBatches.OFFSETS));
    reads.list(new Path(root, CommittedBatches.COMMITS));
    reads.list(new Path(root, "sources"), found -> reads.listEach(found, ""));
    reads.list(new Path(root, "state"), found -> reads.listEach(found, "/_metadata"));
    BY_ROOT.put(store.key(root), reads);
  }

  /** Looks at files of a checkpoint that has been claimed just now, and fetches what they hold. */
  static void look(Path root, List<Path> paths, Requests store) {
    StartReads reads = of(store.key(root));
    if (reads != null) {
      paths.forEach(reads::look);
    }
  }

  /** What is in a directory; null where the store has to be asked. */
  static FileStatus[] list(String key) throws IOException {
    StartReads reads = of(key);
    return reads == null ? null : answer(reads.lists.get(key));
  }

  /**
   * What is at a path; null where the store has to be asked.
   *
   * @throws FileNotFoundException if nothing is there
   */
  static FileStatus status(String key) throws IOException {
    StartReads reads = of(key);
    if (reads == null) {
      return null;
    }
    CompletableFuture<FileStatus> look = reads.looks.get(key);
    if (look != null) {
      return answer(look);
    }
    FileStatus[] siblings = answer(reads.lists.get(parent(key)));
    if (siblings == null) {
      return null;
    }
    for (FileStatus each : siblings) {
      if (each.getPath().getName().equals(key.substring(key.lastIndexOf('/') + 1))) {
        return each;
      }
    }
    throw new FileNotFoundException(key + " does not exist");
  }

  /** After this process has written or deleted it. */
  static void forget(String key) {
    StartReads reads = of(key);
    if (reads != null) {
      reads.looks.remove(key);
      reads.lists.keySet().removeIf(each -> (key + "/").startsWith(each + "/"));
      reads.lists.keySet().removeIf(each -> each.startsWith(key + "/"));
    }
  }

  private static StartReads of(String key) {
    BY_ROOT.values().removeIf(StartReads::stale);
    for (Map.Entry<String, StartReads> each : BY_ROOT.entrySet()) {
      if ((key + "/").startsWith(each.getKey() + "/")) {
        return each.getValue();
      }
    }
    return null;
  }

  private boolean stale() {
    return stale(began);
  }

  /** Whether something was asked for too long ago, at this {@link System#nanoTime}. */
  static boolean stale(long nanos) {
    return System.nanoTime() - nanos > FRESH_NANOS;
  }

  private static String parent(String key) {
    return key.substring(0, key.lastIndexOf('/'));
  }

  private void list(Path directory) {
    list(directory, found -> {});
  }

  /** {@code then} is called before the list is shown. */
  private void list(Path directory, Consumer<FileStatus[]> then) {
    ask(
        lists,
        directory,
        () -> {
          FileStatus[] found = store.list(directory);
          then.accept(found);
          return found;
        });
  }

  private void listEach(FileStatus[] found, String below) {
    for (FileStatus each : found) {
      if (each.isDirectory()) {
        list(new Path(each.getPath() + below));
      }
    }
  }

  private void look(Path path) {
    ask(looks, path, () -> store.look(path));
  }

  private <T> void ask(Map<String, CompletableFuture<T>> asked, Path path, IoCall<T> call) {
    CompletableFuture<T> answer = new CompletableFuture<>();
    if (asked.putIfAbsent(store.key(path), answer) == null) {
      ReadAhead.ask(answer, call, () -> {});
    }
  }

  private static <T> T answer(CompletableFuture<T> asked) throws IOException {
    try {
      return asked == null ? null : Parallel.await(asked, "what a checkpoint holds");
    } catch (ExecutionException e) {
      if (e.getCause() instanceof FileNotFoundException missing) {
        throw new FileNotFoundException(missing.getMessage());
      }
      return null;
    }
  }
}
