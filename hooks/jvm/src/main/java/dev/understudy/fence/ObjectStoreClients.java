package dev.understudy.fence;

import java.io.IOException;
import java.net.URI;
import java.nio.file.AccessDeniedException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The clients of object stores, one per bucket, which live as long as the process.
 *
 * <p>S3A retries for minutes after a check of the gate has passed. Everything that writes therefore
 * uses a client that makes one bounded attempt, and not the one that Hadoop caches. {@link Retries}
 * decides what is sent again, with a check before each attempt.
 */
final class ObjectStoreClients {
  /**
   * Static, as Hadoop's own cache of file systems is: rehearsals read with these clients before the
   * fence does, and their connections must be warm at a takeover.
   */
  private static final Clients READERS = new Clients();

  private final Clients writers = new Clients();
  private final Conditions conditions = new Conditions();
  private final long writeTimeoutMillis;
  private final boolean holdsLease;

  /** One client per bucket. */
  private static final class Clients {
    private final Map<String, FileSystem> byBucket = new ConcurrentHashMap<>();

    private interface Opener {
      FileSystem open(URI uri) throws IOException;
    }

    FileSystem get(Path path, Opener opener) throws IOException {
      URI uri = path.toUri();
      String bucket = uri.getScheme() + "://" + uri.getAuthority();
      FileSystem known = byBucket.get(bucket);
      return known == null ? open(bucket, uri, opener) : known;
    }

    private synchronized FileSystem open(String bucket, URI uri, Opener opener) throws IOException {
      FileSystem client = byBucket.get(bucket);
      if (client == null) {
        client = opener.open(uri);
        byBucket.put(bucket, client);
      }
      return client;
    }
  }

  /**
   * @param writeTimeoutMillis how long one attempt to write may take
   * @param holdsLease whether that is so for the content of objects, too: what is being sent when a
   *     lease ends must not land much later. Without it that takes as long as S3A lets it.
   */
  ObjectStoreClients(long writeTimeoutMillis, boolean holdsLease) {
    this.writeTimeoutMillis = writeTimeoutMillis;
    this.holdsLease = holdsLease;
  }

  /** The client that does not retry. */
  FileSystem writer(Path path, Configuration conf) throws IOException {
    return writers.get(path, uri -> open(uri, path, conf));
  }

  Conditions conditions() {
    return conditions;
  }

  /**
   * The client that reads logs: it retries as the user has configured, and its streams ask for a
   * small object once. By default S3A looks ahead into big objects, which costs one more request
   * and a change of threads for each entry of a log.
   */
  static FileSystem reader(Path path, Configuration conf) throws IOException {
    return READERS.get(
        path,
        uri -> {
          Configuration own = new Configuration(conf);
          readSmallObjects(own, uri);
          return FileSystem.newInstance(uri, own);
        });
  }

  private FileSystem open(URI uri, Path below, Configuration conf) throws IOException {
    Configuration own = new Configuration(conf);
    set(own, uri, "attempts.maximum", "0");
    set(own, uri, "retry.limit", "0");
    set(own, uri, "retry.throttle.limit", "0");
    set(own, uri, "retry.http.5xx.errors", "false");
    for (String each :
        new String[] {
          "connection.request.timeout",
          "connection.timeout",
          "connection.establish.timeout",
          "connection.acquisition.timeout"
        }) {
      set(own, uri, each, writeTimeoutMillis + "ms");
    }
    if (holdsLease) {
      set(own, uri, "connection.part.upload.timeout", writeTimeoutMillis + "ms");
    }
    readSmallObjects(own, uri);
    // no probes for parents and markers around each create and delete: the fence writes files only
    // where it may
    set(own, uri, "performance.flags", "create,delete,mkdir");
    Duration before = minimumDuration(Duration.ofMillis(Math.min(writeTimeoutMillis, 100)));
    FileSystem files = FileSystem.newInstance(uri, own);
    try {
      // S3A makes its client at the first request; it must be made while the minimum is lowered.
      // Credentials may be limited to what is asked for.
      Path nothing = new Path(below, Claim.DIRECTORY + "/probe");
      Retries.reading(() -> answers(files, nothing));
      return files;
    } catch (IOException | RuntimeException e) {
      files.close();
      throw e;
    } finally {
      if (before != null) {
        minimumDuration(before);
      }
    }
  }

  /** A refusal is an answer: the request that needs a right will be told of it. */
  private static boolean answers(FileSystem files, Path path) throws IOException {
    try {
      return files.exists(path);
    } catch (AccessDeniedException e) {
      return false;
    }
  }

  private static void readSmallObjects(Configuration conf, URI uri) {
    // a GET is conditional on the ETag that was seen
    set(conf, uri, "change.detection.source", "etag");
    set(conf, uri, "change.detection.mode", "server");
    set(conf, uri, "input.stream.type", "classic");
  }

  private static void set(Configuration conf, URI uri, String option, String value) {
    conf.set("fs.s3a." + option, value);
    // a bucket's own setting would win
    conf.set("fs.s3a.bucket." + uri.getAuthority() + "." + option, value);
  }

  /**
   * S3A raises every time-out to 15 s unless told otherwise. Returns what was set before; null if
   * that is unknown.
   */
  private static Duration minimumDuration(Duration value) {
    try {
      Class<?> type = Class.forName("org.apache.hadoop.fs.s3a.impl.AWSClientConfig");
      Duration before = (Duration) type.getMethod("getMinimumOperationDuration").invoke(null);
      type.getMethod("setMinimumOperationDuration", Duration.class).invoke(null, value);
      return before;
    } catch (ReflectiveOperationException | RuntimeException e) {
      return null;
    }
  }
}
