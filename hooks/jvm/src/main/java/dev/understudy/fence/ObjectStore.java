package dev.understudy.fence;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * File systems with a conditional PUT ({@code s3a://} of Hadoop 3.5), and a client for them that makes one bounded attempt.
 *
 * <p>S3A by itself retries for minutes after a check of the gate has passed; hence an instance of our own beside the
 * cached one, for everything that writes. What it may send again is for {@link Retries} to say, with a check before each attempt.
 */
final class ObjectStore {
    static final String CREATE_ONLY = "fs.option.create.conditional.overwrite";
    static final String CREATE_IF_ETAG = "fs.option.create.conditional.overwrite.etag";

    private static final String NONCE = "understudy-nonce";
    private static final Map<String, FileSystem> WRITERS = new ConcurrentHashMap<>();
    private static final Map<String, FileSystem> READERS = new ConcurrentHashMap<>();

    private ObjectStore() {}

    static boolean isConditional(FileSystem files, Path path) throws IOException {
        return files.hasPathCapability(files.makeQualified(path), CREATE_ONLY);
    }

    /** The client that does not retry; one per bucket for the life of the process. */
    static FileSystem writer(Path path, Configuration conf) throws IOException {
        return client(WRITERS, path, uri -> open(uri, conf));
    }

    /**
     * The client that logs are read with: retries as the user set it, but streams that ask for a small object once. What S3A does
     * by default, looking ahead into big ones, costs a request more and a change of threads for each entry of a log.
     */
    static FileSystem reader(Path path, Configuration conf) throws IOException {
        return client(READERS, path, uri -> {
            Configuration own = new Configuration(conf);
            small(own, uri);
            return FileSystem.newInstance(uri, own);
        });
    }

    private interface Opener {
        FileSystem open(URI uri) throws IOException;
    }

    private static FileSystem client(Map<String, FileSystem> clients, Path path, Opener opener) throws IOException {
        URI uri = path.toUri();
        String bucket = uri.getScheme() + "://" + uri.getAuthority();
        FileSystem known = clients.get(bucket);
        if (known != null) {
            return known;
        }
        synchronized (clients) {
            FileSystem made = clients.get(bucket);
            if (made == null) {
                made = opener.open(uri);
                clients.put(bucket, made);
            }
            return made;
        }
    }

    private static void small(Configuration conf, URI uri) {
        set(conf, uri, "change.detection.source", "etag"); // a GET is conditional on the ETag that was seen
        set(conf, uri, "change.detection.mode", "server");
        set(conf, uri, "input.stream.type", "classic");
    }

    private static FileSystem open(URI uri, Configuration conf) throws IOException {
        long timeout = Fence.writeTimeoutMillis();
        Configuration own = new Configuration(conf);
        set(own, uri, "attempts.maximum", "0");
        set(own, uri, "retry.limit", "0");
        set(own, uri, "retry.throttle.limit", "0");
        set(own, uri, "retry.http.5xx.errors", "false");
        for (String each : new String[] {
            "connection.request.timeout",
            "connection.timeout",
            "connection.establish.timeout",
            "connection.acquisition.timeout",
            "connection.part.upload.timeout"
        }) {
            set(own, uri, each, timeout + "ms");
        }
        small(own, uri);
        // no probes for parents and markers around each create and delete: the fence writes files only where it may
        set(own, uri, "performance.flags", "create,delete,mkdir");
        Duration before = minimumDuration(Duration.ofMillis(Math.min(timeout, 100)));
        try {
            FileSystem files = FileSystem.newInstance(uri, own);
            // S3A makes its client at the first request; it must be made while the minimum is out of the way
            Path nothing = new Path(uri.getScheme(), uri.getAuthority(), "/" + Claim.DIRECTORY + "/probe");
            Retries.reading(() -> files.exists(nothing));
            return files;
        } finally {
            if (before != null) {
                minimumDuration(before);
            }
        }
    }

    private static void set(Configuration conf, URI uri, String option, String value) {
        conf.set("fs.s3a." + option, value);
        conf.set("fs.s3a.bucket." + uri.getAuthority() + "." + option, value); // a bucket's own setting would win
    }

    /** S3A raises every time-out to 15 s unless told otherwise. Returns what was set before; null if it cannot be told. */
    private static Duration minimumDuration(Duration value) {
        try {
            Class<?> type = Class.forName("org.apache.hadoop.fs.s3a.impl.AWSClientConfig");
            Method get = type.getMethod("getMinimumOperationDuration");
            Duration before = (Duration) get.invoke(null);
            type.getMethod("setMinimumOperationDuration", Duration.class).invoke(null, value);
            return before;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }

    /** A stream that puts one object when it is closed, if the condition holds then. Nothing is sent before. */
    static FSDataOutputStream create(FileSystem files, Path path, String option, String value, String nonce)
            throws IOException {
        FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).create().overwrite(true).recursive();
        if (option != null) {
            builder.must(option, value);
        }
        builder.opt("fs.s3a.create.performance", "true");
        builder.opt("fs.s3a.create.header." + NONCE, nonce);
        return builder.build();
    }

    /** Whether the object that stands was written with this nonce: settles a lost answer. */
    static boolean wroteIt(FileSystem files, Path path, String nonce) throws IOException {
        byte[] found = Retries.reading(() -> files.getXAttrs(path)).get("header." + NONCE);
        return found != null && nonce.equals(new String(found, java.nio.charset.StandardCharsets.UTF_8));
    }

    /** Whether a failed write was refused by its condition, as against lost on the way. */
    static boolean isConflict(IOException failure) {
        return failure instanceof FileAlreadyExistsException
                // hadoop-aws is not on every class path, so by name
                || failure.getClass().getSimpleName().equals("RemoteFileChangedException");
    }
}
