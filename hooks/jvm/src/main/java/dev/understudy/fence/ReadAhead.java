package dev.understudy.fence;

import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Entries of logs that are fetched before they are asked for, because Spark reads them one after
 * the other: in a store that answers after 100 ms that is a second for ten.
 *
 * <p>Of logs only, whose entries never change. What a state consists of may be written again
 * between a list and a read, and is read as it is then.
 *
 * <p>A fetch that fails is none: the reader asks the store itself, and gets its answer.
 */
final class ReadAhead {
  /** A script may have twenty queries, which start together. */
  private static final int AT_ONCE = 32;

  private static final Executor THREADS = threads();

  private static final Pattern COMPACTED = Pattern.compile(".*/sources/[^/]+");
  private static final Pattern PLAIN = Pattern.compile(".*/(offsets|commits)");
  private static final Pattern ENTRY = Pattern.compile("(\\d{1,18})(\\.compact)?");

  /** Spark compacts after ten entries. */
  private static final int NEWEST_COMPACTED = 16;

  /** The last batch, and the one before it. */
  private static final int NEWEST_PLAIN = 2;

  private final Map<String, CompletableFuture<byte[]>> coming = new ConcurrentHashMap<>();

  private record Entry(long number, boolean compacted, FileStatus status) {}

  /**
   * Of a log's entries those that a query reads when it starts: the newest two, or all since the
   * log was compacted the last time, and that one. Empty for any other directory.
   */
  static List<FileStatus> newest(Path directory, FileStatus[] found) {
    String place = directory.toUri().getPath();
    boolean compacts = COMPACTED.matcher(place).matches();
    if (!compacts && !PLAIN.matcher(place).matches()) {
      return List.of();
    }
    List<Entry> entries = new ArrayList<>();
    for (FileStatus each : found) {
      Matcher name = ENTRY.matcher(each.getPath().getName());
      if (name.matches()) {
        entries.add(new Entry(Long.parseLong(name.group(1)), name.group(2) != null, each));
      }
    }
    long first =
        entries.stream().filter(Entry::compacted).mapToLong(Entry::number).max().orElse(-1);
    return entries.stream()
        .filter(each -> each.number() >= first)
        .sorted(Comparator.comparingLong(Entry::number).reversed())
        .limit(compacts ? NEWEST_COMPACTED : NEWEST_PLAIN)
        .map(Entry::status)
        .toList();
  }

  /** Begins to fetch the version of an object. */
  void fetch(String version, IoCall<byte[]> call) {
    CompletableFuture<byte[]> fetched = new CompletableFuture<>();
    if (coming.putIfAbsent(version, fetched) == null) {
      ask(fetched, call, () -> coming.remove(version));
    }
  }

  /** Makes a call in a thread of ours; {@code answer} is what comes of it. */
  static <T> void ask(CompletableFuture<T> answer, IoCall<T> call, Runnable afterwards) {
    THREADS.execute(
        () -> {
          try {
            answer.complete(call.call());
          } catch (Throwable e) {
            answer.completeExceptionally(e);
          }
          afterwards.run();
        });
  }

  /**
   * Waits for what is being fetched. Null if it is not, or could not be.
   *
   * @throws InterruptedIOException if the thread is interrupted, as Spark does to stop a query
   */
  byte[] await(String version) throws InterruptedIOException {
    CompletableFuture<byte[]> fetched = coming.get(version);
    try {
      return fetched == null ? null : Parallel.await(fetched, version);
    } catch (ExecutionException e) {
      return null;
    }
  }

  private static Executor threads() {
    ThreadPoolExecutor made =
        new ThreadPoolExecutor(
            AT_ONCE,
            AT_ONCE,
            10,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            task -> {
              Thread thread = new Thread(task, "understudy-read-ahead");
              thread.setDaemon(true);
              return thread;
            });
    made.allowCoreThreadTimeOut(true);
    return made;
  }
}
