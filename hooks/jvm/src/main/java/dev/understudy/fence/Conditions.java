package dev.understudy.fence;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Whether servers honour the conditions of a PUT. Hadoop's client tells what it sends; only a trial
 * tells what the server makes of it. A server that ignores {@code If-None-Match} answers 200, and
 * every writer would win every claim and every log entry.
 *
 * <p>A trial takes four requests for each bucket in the life of a driver: one object is written,
 * written again under either condition that must fail, and deleted. A standby makes it when it
 * prepares, so a takeover does not.
 */
final class Conditions {
  private static final int NOT_IMPLEMENTED = 501;
  private static final String NO_ETAG = "00000000000000000000000000000000";

  private final Map<String, Trial> buckets = new ConcurrentHashMap<>();

  /**
   * Tries the server of {@code directory}, in it, unless it has been tried.
   *
   * @throws UnfitStoreException if the server ignores a condition
   */
  void require(FileSystem files, Path directory) throws IOException {
    String bucket = directory.toUri().getScheme() + "://" + directory.toUri().getAuthority();
    String ignored = buckets.computeIfAbsent(bucket, name -> new Trial()).ignored(files, directory);
    if (!ignored.isEmpty()) {
      throw new UnfitStoreException(bucket, ignored);
    }
  }

  private static final class Trial {
    /** The condition that the server ignores; null before the trial, empty if there is none. */
    private String ignored;

    synchronized String ignored(FileSystem files, Path directory) throws IOException {
      if (ignored == null) {
        ignored = tried(files, new Path(directory, "probe-" + UUID.randomUUID()));
      }
      return ignored;
    }

    private static String tried(FileSystem files, Path probe) throws IOException {
      try {
        put(files, probe, null, null);
        if (put(files, probe, ObjectStore.CREATE_ONLY, "true")) {
          return "If-None-Match";
        }
        return put(files, probe, ObjectStore.CREATE_IF_ETAG, NO_ETAG) ? "If-Match" : "";
      } finally {
        // only this trial uses the name, and no other trial ever will
        Retries.reading(() -> files.delete(probe, false));
      }
    }

    /**
     * Returns false if the condition was refused. Sends the request again as long as it was not
     * done, so a refusal is never caused by an earlier attempt.
     */
    private static boolean put(FileSystem files, Path probe, String option, String value)
        throws IOException {
      Retries retries = Retries.ofWrite();
      byte[] content = probe.getName().getBytes(StandardCharsets.US_ASCII);
      while (true) {
        try {
          return ObjectStore.put(files, probe, option, value, content);
        } catch (IOException e) {
          if (option != null && Failure.answered(e) == NOT_IMPLEMENTED) {
            return true; // a server that does not know a condition does not honour it either
          }
          retries.pause(e);
        }
      }
    }
  }
}
