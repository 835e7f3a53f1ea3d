package dev.understudy.rehearsal;

import dev.understudy.fence.BoundedMap;
import dev.understudy.fence.SparkRole;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * One round's view of a checkpoint: the real one up to a batch, below a scratch directory that
 * takes every write.
 *
 * <p>The real checkpoint belongs to a leader that goes on committing, purging and compacting while
 * the round runs. What the round sees is fixed by name, not by copying: entries newer than the
 * batch are hidden. What the leader purges in the meantime is gone for the round too; that round
 * fails and the next one starts from a newer batch.
 *
 * <p>Not guaranteed: isolation from a leader that rewrites a file in place (Spark never does below
 * a checkpoint).
 */
final class Overlay {
  /** Of the file system through which Spark reaches it: {@link OverlayFileSystem}. */
  static final String SCHEME = "rehearse";

  private static final Map<String, Overlay> OPEN = new ConcurrentHashMap<>();

  /**
   * State of version v is {@code v.delta}, {@code v.snapshot}, {@code v_<id>.zip}, …, and {@code
   * v.delta.crc} next to it.
   */
  private static final Pattern VERSIONED = Pattern.compile("(\\d{1,18})[._].*");

  private static final Pattern NUMBER = Pattern.compile("(\\d{1,18})(\\.compact)?");

  /** Between an overlay's id and what executors need to know of it. */
  private static final String REMOTE = "~";

  private static final int REMEMBERED = 32;

  /** In an executor: the overlays of other JVMs that it met last. */
  private static final Map<String, Overlay> FOREIGN =
      Collections.synchronizedMap(BoundedMap.oldestFirst(REMEMBERED));

  final String id = UUID.randomUUID().toString();
  private String address = id;
  private final ReplayableBatch past;
  private final FileSystem upperFs;
  private final Path upper;
  private final long last;
  private final Set<String> whiteouts = ConcurrentHashMap.newKeySet();
  private final CountDownLatch committed = new CountDownLatch(1);
  private final CountDownLatch wentOn = new CountDownLatch(1);
  private final CountDownLatch released = new CountDownLatch(1);
  private volatile boolean started;

  /**
   * @param past what to show of the real checkpoint, or null for a throw-away one that starts empty
   * @param scratch an existing directory for this round alone
   */
  private Overlay(ReplayableBatch past, Path scratch, FileSystem scratchFs) {
    this.past = past;
    this.last = past == null ? 0 : past.batch();
    this.upper = new Path(scratch, "checkpoint");
    // Checksum files double the number of creates, and scratch is read once.
    this.upperFs = scratchFs instanceof LocalFileSystem local ? local.getRaw() : scratchFs;
  }

  /**
   * @param shared whether tasks run in other JVMs, which reach {@code scratch} too
   */
  static Overlay open(ReplayableBatch past, Path scratch, FileSystem scratchFs, boolean shared)
      throws IOException {
    Overlay overlay = new Overlay(past, scratch, scratchFs);
    if (shared) {
      overlay.address = overlay.id + REMOTE + RemoteView.of(past, scratch).encode();
    }
    overlay.upperFs.mkdirs(overlay.upper);
    // Spark refuses a checkpoint with batches but without an id, and takes two queries with one id
    // for one query.
    try (OutputStream metadata = overlay.upperFs.create(overlay.upper("metadata"))) {
      metadata.write(("{\"id\":\"" + overlay.id + "\"}").getBytes(StandardCharsets.UTF_8));
    }
    OPEN.put(overlay.id, overlay);
    return overlay;
  }

  /**
   * The overlay at {@code address}, which is also found in an executor.
   *
   * @throws FileNotFoundException once the round is over: a late task of it finds nothing to write
   *     to. In an executor it does, and leaves it in the shared scratch, which expires
   */
  static Overlay of(String address, Configuration conf) throws IOException {
    String[] parts = address.split(REMOTE, 2);
    Overlay overlay = OPEN.get(parts[0]);
    if (overlay != null) {
      return overlay;
    }
    if (parts.length == 1 || SparkRole.onDriver()) {
      throw new FileNotFoundException("the rehearsal " + parts[0] + " is over");
    }
    Overlay known = FOREIGN.get(address);
    if (known == null) {
      RemoteView view = RemoteView.decode(parts[1]);
      Path scratch = new Path(view.scratch());
      known = new Overlay(view.past(conf), scratch, scratch.getFileSystem(conf));
      FOREIGN.put(address, known);
    }
    return known;
  }

  /**
   * Below {@code /r/<id>}: with the checkpoint as the root of a file system Spark builds paths such
   * as {@code rehearse://state}.
   */
  String root() {
    return SCHEME + ":/r/" + address + "/checkpoint";
  }

  /** Lets go of a query that is held before its next batch. */
  void release() {
    released.countDown();
  }

  void close() {
    release();
    OPEN.remove(id);
  }

  // ---- the two layers

  FileSystem upperFs() {
    return upperFs;
  }

  Path upper(String relative) {
    return relative.isEmpty() ? upper : new Path(upper, relative);
  }

  /** The real file behind a name, or null where the round must not see one. Only ever read. */
  Path lower(String relative) {
    if (past == null || hidden(relative) || whitedOut(relative)) {
      return null;
    }
    return relative.isEmpty() ? past.root() : new Path(past.root(), relative);
  }

  FileSystem lowerFs() {
    return past.fs();
  }

  void whiteOut(String relative) {
    if (past != null && !hidden(relative)) {
      whiteouts.add(relative);
    }
  }

  private boolean whitedOut(String relative) {
    if (whiteouts.isEmpty()) {
      return false;
    }
    for (String at = relative; !at.isEmpty(); at = parent(at)) {
      if (whiteouts.contains(at)) {
        return true;
      }
    }
    return false;
  }

  private static String parent(String relative) {
    int slash = relative.lastIndexOf('/');
    return slash < 0 ? "" : relative.substring(0, slash);
  }

  /** What of the real checkpoint lies in this round's future, or does not concern it. */
  private boolean hidden(String relative) {
    if (relative.isEmpty()) {
      return false;
    }
    String[] parts = relative.split("/", -1);
    String name = parts[parts.length - 1];
    boolean below = parts.length > 1;
    return switch (parts[0]) {
      // the rehearsal has its own metadata, see open(); claims are the leader's
      case "metadata", "_understudy" -> true;
      case "offsets" -> below && newer(NUMBER, name, last);
      case "commits" -> below && newer(NUMBER, name, last - 1);
      case "sources" -> parts.length > 2 && newer(NUMBER, name, past.lastSourceEntry(parts[1]));
      case "state" -> parts.length > 2 && (name.startsWith(".") || newer(state(parts), name, last));
      default -> name.startsWith(".");
    };
  }

  /** What names a version of state: a changelog of format 2 by its number alone. */
  private static Pattern state(String[] parts) {
    return parts[parts.length - 2].equals("v2") ? NUMBER : VERSIONED;
  }

  private static boolean newer(Pattern pattern, String name, long limit) {
    if (name.startsWith(".")) {
      // temporary files of the leader, and checksums, which the real file system handles by itself
      return true;
    }
    Matcher matcher = pattern.matcher(name);
    return matcher.matches() && Long.parseLong(matcher.group(1)) > limit;
  }

  // ---- how far the query has come

  /**
   * Called before a file is created. The batch after the rehearsed one is never planned: its thread
   * is held here until the query is stopped, and then leaves with the exception Spark takes for an
   * ordinary stop.
   */
  void beforeCreate(String relative) throws IOException {
    Long batch = logEntry("offsets", relative);
    if (batch == null) {
      return;
    }
    started = true;
    if (batch > last) {
      wentOn.countDown();
      try {
        released.await();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      throw new InterruptedIOException("the rehearsal ends before batch " + batch);
    }
  }

  void afterRename(String relative) {
    Long batch = logEntry("commits", relative);
    if (batch != null && batch == last) {
      committed.countDown();
    }
  }

  /** The batch of a log entry, also while it is still called {@code .<batch>.<uuid>.tmp}. */
  private static Long logEntry(String log, String relative) {
    if (!relative.startsWith(log + "/")) {
      return null;
    }
    String name = relative.substring(log.length() + 1);
    String digits = name.startsWith(".") ? name.substring(1).split("\\.", -1)[0] : name;
    return NUMBER.matcher(digits).matches() ? Long.valueOf(digits) : null;
  }

  boolean batchCommitted() {
    return committed.getCount() == 0;
  }

  /** Whether the query has asked for the batch after the rehearsed one. */
  boolean wentOn() {
    return wentOn.getCount() == 0;
  }

  /**
   * Whether a batch was planned at all; on a throw-away checkpoint there may be nothing to read.
   */
  boolean batchStarted() {
    return started;
  }

  long batch() {
    return last;
  }
}
