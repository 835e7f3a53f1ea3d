package dev.understudy.fence;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Work on many files at the same time: on object stores a file costs mostly waiting. */
public final class Parallel {
  private static final int THREADS = 16;

  private Parallel() {}

  /** What is done with one file. */
  public interface Work<A, B> {
    B of(A file) throws IOException;
  }

  /**
   * Waits for what another thread does.
   *
   * @throws InterruptedIOException if this thread is interrupted, as Spark does to stop a query
   */
  static <T> T await(Future<T> work, String what)
      throws InterruptedIOException, ExecutionException {
    try {
      return work.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted while waiting for " + what);
    }
  }

  /**
   * Does {@code work} with each file.
   *
   * @return the results, in the order of {@code files}
   * @throws IOException what one of them threw, or that the time is over: what is under way then is
   *     interrupted and not waited for
   */
  public static <A, B> List<B> each(List<A> files, long withinMillis, Work<A, B> work)
      throws IOException {
    ExecutorService threads =
        Executors.newFixedThreadPool(
            THREADS,
            task -> {
              Thread thread = new Thread(task, "understudy-files");
              thread.setDaemon(true);
              return thread;
            });
    try {
      List<B> results = new ArrayList<>();
      List<Callable<B>> calls = new ArrayList<>();
      files.forEach(file -> calls.add(() -> work.of(file)));
      for (Future<B> done : threads.invokeAll(calls, withinMillis, TimeUnit.MILLISECONDS)) {
        results.add(done.get());
      }
      return results;
    } catch (ExecutionException e) {
      if (e.getCause() instanceof IOException cause) {
        throw cause;
      }
      throw new IOException(String.valueOf(e.getCause()), e);
    } catch (CancellationException e) {
      throw new IOException(
          files.size() + " files took longer than " + withinMillis / 1000.0 + " s", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted among " + files.size() + " files");
    } finally {
      threads.shutdownNow();
    }
  }
}
