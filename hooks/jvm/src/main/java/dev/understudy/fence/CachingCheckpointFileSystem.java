package dev.understudy.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;

/**
 * Reads of one checkpoint in an object store, with few requests. A query that starts asks several
 * times for each entry of its logs and then reads its state, three requests each and one after the
 * other; a takeover cannot wait for hundreds of them.
 *
 * <p>It remembers six things:
 *
 * <ul>
 *   <li>the content of small objects, for the whole JVM, by path and ETag. A standby's rehearsals
 *       thus leave little to read at its grant;
 *   <li>that a description of a query's state exists, for the whole JVM. Each is written once and
 *       looked for some thirty times at every start, and opening one that has gone fails;
 *   <li>what a look said of such a description, for all that read it within {@value
 *       StartReads#FRESH_SECONDS} s: a start reads each several times;
 *   <li>that an entry of a log exists, for the life of this object. Entries are created exclusively
 *       and never change;
 *   <li>for a query, the list of a log, for {@value StartReads#FRESH_SECONDS} s. A writer that
 *       misses an entry in it finds the slot taken. {@link #forget} ends this memory and the two
 *       above;
 *   <li>what a list or a look said of any other object, for its next reader within {@value
 *       StartReads#FRESH_SECONDS} s, which would ask the store once more.
 * </ul>
 *
 * <p>A query that lists a log for the first time is going to read the newest entries one after the
 * other: {@link ReadAhead} fetches them at once. What a query that starts is going to list is
 * listed when its checkpoint has been claimed: see {@link StartReads}.
 *
 * <p>For reading only: writes pass through to a client with retries, and no code of ours calls
 * them.
 */
public final class CachingCheckpointFileSystem extends FilterFileSystem {
  private static final int SMALL = 256 << 10;
  private static final int CONTENTS_BYTES = 16 << 20;
  private static final int REMEMBERED = 4096;
  private static final String LOG = ".*/(offsets|commits|_spark_metadata|sources/[^/]+)";
  private static final Pattern LOGS = Pattern.compile(LOG);
  private static final Pattern LOG_ENTRY = Pattern.compile(LOG + "/\\d+(\\.compact)?");

  /**
   * Directories of state, and what describes the state in them; not the state itself, which is
   * purged.
   */
  private static final Pattern LASTING =
      Pattern.compile(".*/state((/\\d+){0,2}|(/\\d+){1,2}(/[\\w-]+)?/_metadata(/[a-z]\\w*)?)");

  private static final Contents CONTENTS = new Contents();
  private static final Set<String> EXISTING =
      Collections.newSetFromMap(Collections.synchronizedMap(BoundedMap.oldestFirst(REMEMBERED)));

  private static final Map<String, Seen> DESCRIPTIONS =
      Collections.synchronizedMap(BoundedMap.oldestFirst(REMEMBERED));

  private static final ReadAhead AHEAD = new ReadAhead();

  private record Seen(FileStatus status, long nanos) {}

  private record Listed(List<FileStatus> entries, long nanos) {}

  /** Of entries of logs, which stay as they are until they are purged. */
  private final Map<String, FileStatus> entries =
      Collections.synchronizedMap(BoundedMap.oldestFirst(REMEMBERED));

  /** Of all other files. */
  private final RecentMap<FileStatus> recent =
      new RecentMap<>(REMEMBERED, StartReads.FRESH_NANOS, System::nanoTime);

  private final boolean keepsLists;
  private final Map<String, Listed> lists = new HashMap<>();
  private final Set<String> readAhead = ConcurrentHashMap.newKeySet();
  private long changes;

  /**
   * @param keepsLists for the only writer of these logs, which reports its writes: see {@link
   *     #forget}
   */
  CachingCheckpointFileSystem(FileSystem client, boolean keepsLists) {
    super(client);
    this.keepsLists = keepsLists;
  }

  /**
   * This process has claimed the checkpoint, and is going to start a query from it: what that reads
   * is asked for now. See {@link StartReads}. The claim holds also where nothing can be asked: the
   * start will tell.
   */
  static void startsSoon(Path root, Configuration conf) {
    FileSystem client;
    try {
      client = ObjectStoreClients.reader(root, conf);
    } catch (IOException e) {
      return;
    }
    StartReads.begin(root, new CachingCheckpointFileSystem(client, true).new Ahead());
  }

  /** Files of a checkpoint from which a query starts now, that are going to be read. */
  public void willRead(Path root, List<Path> paths) {
    StartReads.look(root, paths, new Ahead());
  }

  /** For one round of a rehearsal, which only reads, while a leader writes. */
  public static FileSystem of(Path path, Configuration conf) throws IOException {
    FileSystem files = path.getFileSystem(conf);
    return LocalFiles.isLocal(files)
        ? files
        : new CachingCheckpointFileSystem(ObjectStoreClients.reader(path, conf), false);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    if (isLogEntry(path)) {
      FileStatus known = entries.get(key(path));
      if (known != null) {
        return known;
      }
      List<FileStatus> log = known(path.getParent());
      if (log != null) {
        return log.stream()
            .filter(each -> each.getPath().getName().equals(path.getName()))
            .findFirst()
            .orElseThrow(() -> Sneaky.rethrow(new FileNotFoundException(path + " does not exist")));
      }
    }
    FileStatus found = StartReads.status(key(path));
    return found == null ? remembered(fs.getFileStatus(path)) : found;
  }

  @Override
  public boolean exists(Path path) throws IOException {
    return knowsOf(path) || super.exists(path);
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    List<FileStatus> known = known(path);
    if (known != null) {
      return known.toArray(FileStatus[]::new);
    }
    long asked = System.nanoTime();
    long before;
    synchronized (lists) {
      before = changes;
    }
    FileStatus[] ahead = StartReads.list(key(path));
    FileStatus[] found = ahead == null ? fs.listStatus(path) : ahead;
    noteExisting(path);
    for (FileStatus each : found) {
      remembered(each);
    }
    synchronized (lists) {
      // another thread may have written meanwhile (Spark purges from a separate one): then this
      // list is old
      if (keepsLists && changes == before && LOGS.matcher(path.toUri().getPath()).matches()) {
        lists.put(key(path), new Listed(List.of(found), asked));
      }
    }
    if (keepsLists && readAhead.add(key(path))) {
      ReadAhead.newest(path, found).forEach(this::fetch);
    }
    return found;
  }

  private void fetch(FileStatus status) {
    String version = version(status);
    if (version != null && CONTENTS.get(version) == null) {
      AHEAD.fetch(version, () -> fetched(status, version));
    }
  }

  /** Whether it is known to exist, without a request: false says nothing. */
  boolean knowsOf(Path path) {
    return EXISTING.contains(key(path));
  }

  /** True and false cost one request, where a look for a directory costs two. */
  boolean directoryExists(Path path) throws IOException {
    if (knowsOf(path)) {
      return true;
    }
    try {
      listStatus(path);
      return true;
    } catch (FileNotFoundException e) {
      return false;
    }
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    FileStatus known = recalled(path);
    try {
      return open(path, known == null ? described(fs.getFileStatus(path)) : known);
    } catch (FileNotFoundException e) {
      if (known == null) {
        forget(path); // it was thought to exist, perhaps
        throw e;
      }
    } catch (IOException e) {
      if (!ObjectStore.isConflict(e)) {
        throw e;
      }
    }
    forget(path); // gone or replaced since it was seen: ask again
    return open(path, fs.getFileStatus(path));
  }

  /** The client is shared: see {@link ObjectStoreClients}. */
  @Override
  public void close() {}

  /** After this process has written or deleted it. */
  void forget(Path path) {
    String gone = key(path);
    StartReads.forget(gone);
    entries.remove(gone);
    recent.remove(gone);
    forgetBelow(gone);
    synchronized (lists) {
      changes++;
      lists.remove(key(path.getParent()));
    }
  }

  /** What lasts as long as its directory does: {@code gone} is not what it was. */
  static void forgetBelow(String gone) {
    EXISTING.removeIf(each -> each.equals(gone) || each.startsWith(gone + "/"));
    DESCRIPTIONS.keySet().removeIf(each -> each.equals(gone) || each.startsWith(gone + "/"));
  }

  private FSDataInputStream open(Path path, FileStatus status) throws IOException {
    String version = version(status);
    if (version == null) {
      return fs.open(path);
    }
    byte[] content = CONTENTS.get(version);
    if (content == null) {
      content = AHEAD.await(version);
    }
    if (content == null) {
      // read here and not later, so that an object that has been replaced is noticed where it can
      // be asked for again
      content = fetched(status, version);
    }
    return new FSDataInputStream(new InMemoryInputStream(content));
  }

  private byte[] fetched(FileStatus status, String version) throws IOException {
    byte[] content;
    try (InputStream in =
        FutureIO.awaitFuture(fs.openFile(status.getPath()).withFileStatus(status).build())) {
      content = in.readAllBytes();
    }
    CONTENTS.put(version, content);
    return content;
  }

  /** What a content is remembered by; null where it is not. */
  private String version(FileStatus status) {
    String etag = status instanceof EtagSource source ? source.getEtag() : null;
    return etag == null || etag.isEmpty() || status.getLen() > SMALL
        ? null
        : key(status.getPath()) + " " + etag.replace("\"", "");
  }

  /** Null where the store has to be asked. */
  private FileStatus recalled(Path path) throws IOException {
    Seen described = DESCRIPTIONS.get(key(path));
    if (described != null && !StartReads.stale(described.nanos())) {
      return described.status();
    }
    FileStatus known = isLogEntry(path) ? entries.get(key(path)) : recent.remove(key(path));
    return known == null ? StartReads.status(key(path)) : known;
  }

  private FileStatus remembered(FileStatus status) {
    String key = key(status.getPath());
    if (status.isFile() && isLogEntry(status.getPath())) {
      entries.put(key, status);
    } else if (status.isFile()) {
      recent.put(key, status);
    }
    noteExisting(status.getPath());
    return described(status);
  }

  private FileStatus described(FileStatus status) {
    if (status.isFile() && isLasting(status.getPath())) {
      DESCRIPTIONS.put(key(status.getPath()), new Seen(status, System.nanoTime()));
    }
    return status;
  }

  private void noteExisting(Path path) {
    if (isLasting(path)) {
      EXISTING.add(key(path));
    }
  }

  private List<FileStatus> known(Path path) {
    synchronized (lists) {
      Listed known = lists.get(key(path));
      return known == null || StartReads.stale(known.nanos()) ? null : known.entries();
    }
  }

  private String key(Path path) {
    return fs.makeQualified(path).toString();
  }

  private static boolean isLasting(Path path) {
    return LASTING.matcher(path.toUri().getPath()).matches();
  }

  private static boolean isLogEntry(Path path) {
    return LOG_ENTRY.matcher(path.toUri().getPath()).matches();
  }

  private final class Ahead implements StartReads.Requests {
    @Override
    public FileStatus[] list(Path directory) throws IOException {
      FileStatus[] found = fs.listStatus(directory);
      ReadAhead.newest(directory, found).forEach(CachingCheckpointFileSystem.this::fetch);
      for (FileStatus each : found) {
        if (each.isFile() && each.getPath().getName().equals("metadata")) {
          fetch(each);
        }
      }
      return found;
    }

    @Override
    public FileStatus look(Path path) throws IOException {
      FileStatus found = fs.getFileStatus(path);
      fetch(found);
      return found;
    }

    @Override
    public String key(Path path) {
      return CachingCheckpointFileSystem.this.key(path);
    }
  }

  /** The least recently read goes first. */
  private static final class Contents {
    private final LinkedHashMap<String, byte[]> byVersion = new LinkedHashMap<>(16, 0.75f, true);
    private long bytes;

    synchronized byte[] get(String version) {
      return byVersion.get(version);
    }

    synchronized void put(String version, byte[] content) {
      byte[] before = byVersion.put(version, content);
      bytes += content.length - (before == null ? 0 : before.length);
      var eldest = byVersion.values().iterator();
      while (bytes > CONTENTS_BYTES) {
        bytes -= eldest.next().length;
        eldest.remove();
      }
    }
  }
}
