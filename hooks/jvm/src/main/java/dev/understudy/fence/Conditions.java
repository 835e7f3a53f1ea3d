package dev.understudy.fence;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Whether a server honours the conditions of a PUT. Hadoop's client tells what it sends; what the server makes of it only a
 * trial tells. Servers that pass over {@code If-None-Match} answer 200, and every claim and every log entry would be won by all.
 *
 * <p>Four requests for each bucket in the life of a driver: one object is written, written again under either condition that must
 * fail, and deleted. A standby makes them when it prepares, so a takeover does not.
 */
final class Conditions {
    private static final Map<String, Conditions> BUCKETS = new ConcurrentHashMap<>();
    private static final int NOT_IMPLEMENTED = 501;
    private static final String NO_ETAG = "00000000000000000000000000000000";

    private final String bucket;
    /** What the server passes over; null until it is known, empty when it is nothing. */
    private String ignored;

    private Conditions(String bucket) {
        this.bucket = bucket;
    }

    /** Throws {@link UnfitStoreException} if the server ignores a condition. {@code directory} is where the trial is made. */
    static void require(FileSystem files, Path directory) throws IOException {
        String bucket = directory.toUri().getScheme() + "://" + directory.toUri().getAuthority();
        BUCKETS.computeIfAbsent(bucket, Conditions::new).look(files, directory);
    }

    private synchronized void look(FileSystem files, Path directory) throws IOException {
        if (ignored == null) {
            ignored = tried(files, new Path(directory, "probe-" + UUID.randomUUID()));
        }
        if (!ignored.isEmpty()) {
            UnfitStoreException unfit = new UnfitStoreException(bucket, ignored);
            Refusal.note(Refusal.unfit(unfit));
            throw unfit;
        }
    }

    private static String tried(FileSystem files, Path probe) throws IOException {
        try {
            put(files, probe, null, null);
            if (put(files, probe, ObjectStore.CREATE_ONLY, "true")) {
                return "If-None-Match";
            }
            return put(files, probe, ObjectStore.CREATE_IF_ETAG, NO_ETAG) ? "If-Match" : "";
        } finally {
            Retries.reading(() -> files.delete(probe, false)); // ours alone, and never twice the same name
        }
    }

    /** False if the condition was refused. Sent again as long as it was not done, so a refusal is never our own doing. */
    private static boolean put(FileSystem files, Path probe, String option, String value) throws IOException {
        Retries retries = new Retries();
        while (true) {
            FSDataOutputStream out =
                    ObjectStore.create(files, probe, option, value, UUID.randomUUID().toString());
            try {
                out.write(probe.getName().getBytes(StandardCharsets.US_ASCII));
                out.close();
                return true;
            } catch (IOException e) {
                out.abort();
                if (ObjectStore.isConflict(e)) {
                    return false;
                }
                if (option != null && Failure.answered(e) == NOT_IMPLEMENTED) {
                    return true; // a condition that is not known is not kept either
                }
                retries.pause(e);
            }
        }
    }
}
