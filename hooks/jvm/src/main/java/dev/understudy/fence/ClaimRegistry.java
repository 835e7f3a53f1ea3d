package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Which root a path belongs to.
 *
 * <p>The nearest one that is known already; else the place suggests it: {@code
 * <x>/_spark_metadata/…} belongs to the sink {@code <x>}, {@code <x>/offsets/…} and its like to the
 * checkpoint {@code <x>}, a partition {@code <x>/a=1/b=2} of a written table to {@code <x>}, and
 * any other file to its directory. Spark's temporary checkpoints are not claimed.
 */
final class ClaimRegistry {
  private static final File TMPDIR = new File(System.getProperty("java.io.tmpdir"));
  private static final Pattern TEMPORARY =
      Pattern.compile(
          "(/.*)/(temporary-\\p{XDigit}{8}(?:-\\p{XDigit}{4}){3}-\\p{XDigit}{12})(?:/.*)?");
  private static final Set<String> INSIDE =
      Set.of(
          CommittedBatches.OFFSETS,
          CommittedBatches.COMMITS,
          "sources",
          "state",
          "_spark_metadata");

  /**
   * A script may write to another directory with every batch, and this process lives for months.
   */
  private static final int OUTPUTS = 256;

  private static final int DIRECTORIES = 1024;

  private final ObjectStoreClients clients;

  /** Checkpoints, and what was claimed by its name: as many as the script has queries and sinks. */
  private final Map<String, ClaimedDirectory> known = new ConcurrentHashMap<>();

  // All others are guarded by this object's lock.
  private final Map<String, ClaimedDirectory> outputs =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, ClaimedDirectory> eldest) {
          if (size() <= OUTPUTS) {
            return false;
          }
          released.put(
              eldest.getKey(), new Released(eldest.getKey(), eldest.getValue(), collected));
          return true;
        }
      };

  /**
   * Outputs that were forgotten, as long as a running job holds them: what it knows must not be
   * lost.
   */
  private final Map<String, Released> released = new HashMap<>();

  private final ReferenceQueue<ClaimedDirectory> collected = new ReferenceQueue<>();
  private final Map<String, ClaimedDirectory> byDirectory =
      BoundedMap.leastRecentlyUsedFirst(DIRECTORIES);

  private static final class Released extends WeakReference<ClaimedDirectory> {
    final String key;

    Released(String key, ClaimedDirectory root, ReferenceQueue<ClaimedDirectory> collected) {
      super(root, collected);
      this.key = key;
    }
  }

  ClaimRegistry(ObjectStoreClients clients) {
    this.clients = clients;
  }

  ClaimedDirectory named(FileSystem files, Path path, Configuration conf) throws IOException {
    String key = key(files, path);
    ClaimedDirectory root = known.get(key);
    if (root != null) {
      return root;
    }
    // not under the lock: it may ask the store
    ClaimedDirectory made = ClaimedDirectory.of(key, files, conf, clients);
    synchronized (this) {
      ClaimedDirectory first = known.putIfAbsent(key, made);
      outputs.remove(key); // written to before by a batch writer, perhaps
      released.remove(key);
      byDirectory.clear(); // a nearer root than the remembered ones, perhaps
      return first == null ? made : first;
    }
  }

  /** The root whose file or log {@code path} is, if it is known by its name; else null. */
  ClaimedDirectory known(FileSystem files, Path path) {
    return known.get(parent(key(files, path)));
  }

  /** No query uses it any more. The next writer claims it again. */
  synchronized void forget(String key) {
    ClaimedDirectory root = known.remove(key);
    if (root != null) {
      root.inFlight.over();
    }
    byDirectory.clear();
  }

  /**
   * For a checkpoint's file, or with {@code sink} the directory of a streaming file sink: what is
   * claimed as a whole.
   */
  ClaimedDirectory above(FileSystem files, Path path, Configuration conf, boolean sink)
      throws IOException {
    String temporary = LocalFiles.isLocal(files) ? temporaryCheckpoint(key(files, path)) : null;
    if (temporary != null) {
      return ClaimedDirectory.unclaimed(temporary, files);
    }
    String start = sink ? key(files, path) : parent(key(files, path));
    ClaimedDirectory root = nearest(start, false);
    if (root != null) {
      return root;
    }
    String inferred = sink ? sinkRoot(start) : checkpointRoot(key(files, path));
    return remember(start, inferred, ClaimedDirectory.of(inferred, files, conf, clients));
  }

  /**
   * For a directory that a batch writer writes to: what is claimed as a whole above it, or else the
   * output of {@code job}. Only the latest outputs are remembered; another one is claimed again,
   * and finds its claim, when it is written to again.
   */
  ClaimedDirectory output(FileSystem files, Path path, Configuration conf, Identity identity)
      throws IOException {
    String start = key(files, path);
    ClaimedDirectory root = nearest(start, true);
    if (root != null) {
      return root;
    }
    String inferred = sinkRoot(start);
    return remember(
        start, inferred, ClaimedDirectory.ofOutput(inferred, files, conf, clients, identity));
  }

  private synchronized ClaimedDirectory nearest(String start, boolean outputsToo) {
    // the file <root>/metadata and a directory <x>/state/y of another root share no parent, so this
    // cache is exact
    ClaimedDirectory cached = byDirectory.get(start);
    if (cached != null && (outputsToo || !cached.output())) {
      return used(cached);
    }
    for (String each = start; !each.isEmpty(); each = parent(each)) {
      ClaimedDirectory root = find(each);
      if (root != null && (outputsToo || !root.output())) {
        byDirectory.put(start, root);
        return root;
      }
    }
    return null;
  }

  private synchronized ClaimedDirectory remember(String start, String key, ClaimedDirectory made) {
    ClaimedDirectory root = find(key);
    if (root == null || (root.output() && !made.output())) {
      // a batch's output that becomes a stream's: the claim of the whole directory wins
      root = made;
      (made.output() ? outputs : known).put(key, root);
      byDirectory.clear();
    }
    byDirectory.put(start, root);
    return root;
  }

  private ClaimedDirectory find(String key) {
    ClaimedDirectory root = known.get(key);
    if (root == null) {
      root = outputs.get(key);
    }
    if (root == null) {
      Released reference = released.get(key);
      root = reference == null ? null : reference.get();
    }
    return root == null ? null : used(root);
  }

  private ClaimedDirectory used(ClaimedDirectory root) {
    if (root.output()) {
      released.remove(root.key);
      outputs.put(root.key, root);
      while (collected.poll() instanceof Released gone) {
        released.remove(gone.key, gone);
      }
    }
    return root;
  }

  /**
   * The directory that Spark has made for a query without a checkpoint (memory, console, noop), if
   * this is in it; else null. Its name is random, it is deleted at the end, and no other driver can
   * mean it: there is nothing to claim.
   */
  private static String temporaryCheckpoint(String key) throws IOException {
    Matcher found = TEMPORARY.matcher(key);
    boolean ours =
        found.matches()
            && new File(found.group(1)).getCanonicalPath().equals(TMPDIR.getCanonicalPath());
    return ours ? found.group(1) + "/" + found.group(2) : null;
  }

  synchronized Collection<ClaimedDirectory> all() {
    List<ClaimedDirectory> all = new ArrayList<>(known.values());
    all.addAll(outputs.values());
    return all;
  }

  void describe(ArrayNode json) throws IOException {
    for (ClaimedDirectory root : all()) {
      ObjectNode each = json.addObject();
      each.put("root", root.key).put("token", root.token()).put("in_flight", root.inFlight.get());
      each.put("committed", root.committed.last());
    }
  }

  /**
   * A root that cannot be looked into counts as one with a batch. Outputs of batch writers have
   * none, and are not looked into.
   */
  boolean anyInFlight() {
    for (ClaimedDirectory root : known.values()) {
      try {
        if (root.inFlight.get() >= 0) {
          return true;
        }
      } catch (IOException e) {
        return true;
      }
    }
    return false;
  }

  /**
   * How a path is named here and in the log: absolute, and without {@code file:} when it is local.
   */
  static String key(FileSystem files, Path path) {
    return LocalFiles.isLocal(files)
        ? LocalFiles.local(files, path).normalize().toString()
        : files.makeQualified(path).toString();
  }

  static String checkpointRoot(String file) {
    String directory = parent(file);
    if (name(file).equals("metadata") && !name(directory).equals("_metadata")) {
      return directory;
    }
    for (String each = directory; !each.isEmpty(); each = parent(each)) {
      if (INSIDE.contains(name(each))) {
        return parent(each);
      }
    }
    return directory;
  }

  static String sinkRoot(String directory) {
    String each = directory;
    while (name(each).indexOf('=') > 0) {
      each = parent(each);
    }
    return each;
  }

  private static String name(String key) {
    return key.substring(key.lastIndexOf('/') + 1);
  }

  /**
   * Empty above the top, which is "s3a://bucket/" in a store, with the slash, as Hadoop names it.
   * On a disk "/" is no root.
   */
  private static String parent(String key) {
    int authority = key.indexOf("://");
    int top = authority < 0 ? 0 : key.indexOf('/', authority + 3);
    int slash = key.lastIndexOf('/');
    if (slash < top || slash == 0 || slash == key.length() - 1) {
      return "";
    }
    return key.substring(0, slash == top ? slash + 1 : slash);
  }
}
