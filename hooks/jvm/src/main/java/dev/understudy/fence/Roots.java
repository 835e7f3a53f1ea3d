package dev.understudy.fence;

import java.io.File;
import java.io.IOException;
import java.util.Collection;
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
 * <p>The nearest one that is known already; else the place suggests it: {@code <x>/_spark_metadata/…} belongs to the sink
 * {@code <x>}, {@code <x>/offsets/…} and its like to the checkpoint {@code <x>}, a partition {@code <x>/a=1/b=2} of a
 * written table to {@code <x>}, and anything else to its own directory. Spark's temporary checkpoints are no root of anybody's.
 */
final class Roots {
    private static final File TMPDIR = new File(System.getProperty("java.io.tmpdir"));
    private static final Pattern TEMPORARY =
            Pattern.compile("(/.*)/(temporary-\\p{XDigit}{8}(?:-\\p{XDigit}{4}){3}-\\p{XDigit}{12})(?:/.*)?");
    private static final Set<String> INSIDE = Set.of("offsets", "commits", "sources", "state", "_spark_metadata");

    private final Map<String, Root> known = new ConcurrentHashMap<>();
    private final Map<String, Root> byDirectory = new ConcurrentHashMap<>();

    Root named(FileSystem files, Path path, Configuration conf) throws IOException {
        String key = key(files, path);
        Root root = known.get(key);
        if (root == null) {
            root = add(key, files, conf);
        }
        return root;
    }

    private synchronized Root add(String key, FileSystem files, Configuration conf) throws IOException {
        Root root = known.get(key);
        if (root == null) {
            root = Root.of(key, files, conf);
            known.put(key, root);
            byDirectory.clear(); // a nearer root than the remembered ones, perhaps
        }
        return root;
    }

    Root above(FileSystem files, Path path, Configuration conf, boolean sink) throws IOException {
        String temporary = LocalFiles.isLocal(files) ? temporaryCheckpoint(key(files, path)) : null;
        if (temporary != null) {
            return Root.unclaimed(temporary, files);
        }
        String start = sink ? key(files, path) : parent(key(files, path));
        // the file <root>/metadata and a directory <x>/state/y of another root share no parent, so this cache is exact
        Root cached = byDirectory.get(start);
        if (cached != null) {
            return cached;
        }
        for (String each = start; !each.isEmpty(); each = parent(each)) {
            Root root = known.get(each);
            if (root != null) {
                byDirectory.put(start, root);
                return root;
            }
        }
        String inferred = sink ? sinkRoot(start) : checkpointRoot(key(files, path));
        Root root = add(inferred, files, conf);
        byDirectory.put(start, root);
        return root;
    }

    /**
     * The directory that Spark has made for a query without a checkpoint (memory, console, noop), if this is in it; else null. Its name is
     * drawn at each start, it is deleted at the end, and no other driver can mean it: there is nothing to claim.
     */
    private static String temporaryCheckpoint(String key) throws IOException {
        Matcher found = TEMPORARY.matcher(key);
        boolean ours = found.matches() && new File(found.group(1)).getCanonicalPath().equals(TMPDIR.getCanonicalPath());
        return ours ? found.group(1) + "/" + found.group(2) : null;
    }

    Collection<Root> all() {
        return List.copyOf(known.values());
    }

    /** A root that cannot be looked into counts as one with a batch. */
    boolean anyInFlight() {
        for (Root root : known.values()) {
            try {
                if (root.inFlight() >= 0) {
                    return true;
                }
            } catch (IOException e) {
                return true;
            }
        }
        return false;
    }

    /** How a path is named here and in the log: absolute, and without {@code file:} when it is local. */
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

    /** Empty above the top: neither "/" nor "s3a://bucket" has a parent that could be a root. */
    private static String parent(String key) {
        int slash = key.lastIndexOf('/');
        return slash <= 0 || key.charAt(slash - 1) == '/' ? "" : key.substring(0, slash);
    }
}
