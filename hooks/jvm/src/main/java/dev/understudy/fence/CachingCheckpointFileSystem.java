package dev.understudy.fence;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;

/**
 * Reads of one checkpoint in an object store, with few requests. A query that starts asks several times for each entry of its
 * logs and then reads its state, three requests each and one after the other; a takeover cannot wait for hundreds of them.
 *
 * <p>Five things are remembered. The content of small objects, for the whole JVM, by path and ETag: so a standby's rehearsals
 * leave little to be read at its grant. That there is a description of a query's state, for the whole JVM: each is written once
 * and looked for some thirty times at every start, and whoever opens one that has gone is told so. That an entry of a log
 * exists, for the life of this object: entries are created exclusively and never change. For a query, the list of a log, for
 * {@value #FRESH_SECONDS} s: whoever missed an entry there finds its slot taken when it writes. {@link #forget} ends these
 * three. And what a list or a look said of any other object, for the next reader of it within {@value #FRESH_SECONDS} s: what
 * {@code open} would ask the store once more.
 *
 * <p>For reading only: writes pass through to a client with retries, and nothing of ours calls them.
 */
public final class CachingCheckpointFileSystem extends FilterFileSystem {
    private static final int SMALL = 256 << 10;
    private static final int CONTENTS_BYTES = 16 << 20;
    private static final int REMEMBERED = 4096;
    private static final long FRESH_SECONDS = 5;
    private static final String LOG = ".*/(offsets|commits|_spark_metadata|sources/[^/]+)";
    private static final Pattern LOGS = Pattern.compile(LOG);
    private static final Pattern LOG_ENTRY = Pattern.compile(LOG + "/\\d+(\\.compact)?");
    /** Directories of state, and what describes the state in them; not the state itself, which is purged. */
    private static final Pattern LASTING = Pattern.compile(".*/state((/\\d+){0,2}|(/\\d+){1,2}(/[\\w-]+)?/_metadata(/[a-z]+)?)");
    private static final Contents CONTENTS = new Contents();
    private static final Set<String> EXISTING = Collections.newSetFromMap(Collections.synchronizedMap(bounded()));

    private record Seen(FileStatus status, long nanos) {}

    private record Listed(FileStatus[] entries, long nanos) {}

    private final Map<String, Seen> seen = Collections.synchronizedMap(bounded());

    private final boolean keepsLists;
    private final Map<String, Listed> lists = new HashMap<>();
    private long changes;

    /** @param keepsLists for whoever alone writes to these logs, and tells of it: see {@link #forget} */
    CachingCheckpointFileSystem(FileSystem client, boolean keepsLists) {
        super(client);
        this.keepsLists = keepsLists;
    }

    /** For one round of a rehearsal, which only reads, while a leader writes. */
    public static FileSystem of(Path path, Configuration conf) throws IOException {
        FileSystem files = path.getFileSystem(conf);
        return LocalFiles.isLocal(files) ? files : new CachingCheckpointFileSystem(ObjectStore.reader(path, conf), false);
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        if (isLogEntry(path)) {
            Seen known = seen.get(key(path));
            if (known != null) {
                return known.status();
            }
            FileStatus[] log = listed(path.getParent());
            if (log != null) {
                return Arrays.stream(log)
                        .filter(each -> each.getPath().getName().equals(path.getName()))
                        .findFirst()
                        .orElseThrow(() -> Sneaky.rethrow(new FileNotFoundException(path + " does not exist")));
            }
        }
        return remembered(fs.getFileStatus(path));
    }

    @Override
    public boolean exists(Path path) throws IOException {
        return EXISTING.contains(key(path)) || super.exists(path);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        FileStatus[] known = listed(path);
        if (known != null) {
            return known.clone();
        }
        long asked = System.nanoTime();
        long before;
        synchronized (lists) {
            before = changes;
        }
        FileStatus[] found = fs.listStatus(path);
        for (FileStatus each : found) {
            remembered(each);
        }
        synchronized (lists) {
            // another thread may have written meanwhile (Spark purges from one of its own): then this list is already old
            if (keepsLists && changes == before && LOGS.matcher(path.toUri().getPath()).matches()) {
                lists.put(key(path), new Listed(found.clone(), asked));
            }
        }
        return found;
    }

    /** True and false cost one request, where a look for a directory costs two. */
    boolean directoryExists(Path path) throws IOException {
        if (EXISTING.contains(key(path))) {
            return true;
        }
        try {
            listStatus(path);
            noteExisting(path);
            return true;
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        FileStatus known = recalled(path);
        try {
            return open(path, known == null ? fs.getFileStatus(path) : known);
        } catch (FileNotFoundException e) {
            if (known == null) {
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

    /** The client is everybody's: see {@link ObjectStore}. */
    @Override
    public void close() {}

    /** After this process has written or deleted it. */
    void forget(Path path) {
        String gone = key(path);
        seen.remove(gone);
        EXISTING.removeIf(each -> each.equals(gone) || each.startsWith(gone + "/"));
        synchronized (lists) {
            changes++;
            lists.remove(key(path.getParent()));
        }
    }

    private FSDataInputStream open(Path path, FileStatus status) throws IOException {
        String etag = status instanceof EtagSource source ? source.getEtag() : null;
        if (etag == null || etag.isEmpty() || status.getLen() > SMALL) {
            return fs.open(path);
        }
        String version = key(path) + " " + etag.replace("\"", "");
        byte[] content = CONTENTS.get(version);
        if (content == null) {
            // read here and not later, so that an object that has been replaced is noticed where it can be asked for again
            try (InputStream in = FutureIO.awaitFuture(fs.openFile(path).withFileStatus(status).build())) {
                content = in.readAllBytes();
            }
            CONTENTS.put(version, content);
        }
        return new FSDataInputStream(new InMemory(content));
    }

    /** Null where the store has to be asked. */
    private FileStatus recalled(Path path) {
        boolean entry = isLogEntry(path);
        Seen known = entry ? seen.get(key(path)) : seen.remove(key(path));
        return known == null || (!entry && stale(known.nanos())) ? null : known.status();
    }

    private FileStatus remembered(FileStatus status) {
        if (status.isFile()) {
            seen.put(key(status.getPath()), new Seen(status, System.nanoTime()));
        }
        noteExisting(status.getPath());
        return status;
    }

    private void noteExisting(Path path) {
        if (LASTING.matcher(path.toUri().getPath()).matches()) {
            EXISTING.add(key(path));
        }
    }

    private FileStatus[] listed(Path path) {
        synchronized (lists) {
            Listed known = lists.get(key(path));
            return known == null || stale(known.nanos()) ? null : known.entries();
        }
    }

    private static boolean stale(long nanos) {
        return System.nanoTime() - nanos > TimeUnit.SECONDS.toNanos(FRESH_SECONDS);
    }

    private String key(Path path) {
        return fs.makeQualified(path).toString();
    }

    private static <V> Map<String, V> bounded() {
        return new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, V> eldest) {
                return size() > REMEMBERED;
            }
        };
    }

    private static boolean isLogEntry(Path path) {
        return LOG_ENTRY.matcher(path.toUri().getPath()).matches();
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

    private static final class InMemory extends FSInputStream {
        private final byte[] content;
        private ByteArrayInputStream in;
        private long position;

        InMemory(byte[] content) {
            this.content = content;
            this.in = new ByteArrayInputStream(content);
        }

        @Override
        public int read() {
            int read = in.read();
            position += read < 0 ? 0 : 1;
            return read;
        }

        @Override
        public int read(byte[] into, int offset, int length) {
            int read = in.read(into, offset, length);
            position += Math.max(0, read);
            return read;
        }

        @Override
        public int available() {
            return in.available();
        }

        @Override
        public void seek(long to) throws IOException {
            if (to < 0 || to > content.length) {
                throw new EOFException("cannot seek to " + to + " in " + content.length + " bytes");
            }
            in = new ByteArrayInputStream(content, (int) to, content.length - (int) to);
            position = to;
        }

        @Override
        public long getPos() {
            return position;
        }

        @Override
        public boolean seekToNewSource(long to) {
            return false;
        }
    }
}
