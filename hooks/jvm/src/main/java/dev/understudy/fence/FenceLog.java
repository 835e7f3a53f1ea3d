package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * One JSON object per line for every write that landed or was refused, but for state files that landed. For people, and for
 * tests that count stale writes; what programs want to know is in {@link Counters}, which every write reaches first.
 *
 * <p>Each line is one write(2) to a file opened with O_APPEND. Not guaranteed: a line about a write that landed just
 * before the process was killed, and any line on a full disk. At {@link #LIMIT_BYTES} the file becomes {@code <name>.1}
 * (replacing an older one), so a driver has two of them at most.
 */
final class FenceLog {
    static final String ACCEPTED = "accepted";
    static final String REFUSED = "refused";
    /** The request's answer was lost: it may have landed, or may yet. */
    static final String UNKNOWN = "unknown";

    private static final String COMMITS = "/commits";

    private static final long LIMIT_BYTES = limit(System.getenv("UNDERSTUDY_FENCE_LOG_LIMIT"));

    private final File file;
    private final Counters counters;
    private FileOutputStream out;
    private long bytes;
    private boolean broken;

    FenceLog(String path, Counters counters) throws IOException {
        this.counters = counters;
        file = new File(path);
        File directory = file.getAbsoluteFile().getParentFile();
        if (!directory.isDirectory() && !directory.mkdirs() && !directory.isDirectory()) {
            throw new IOException("cannot create " + directory);
        }
        open();
    }

    private static long limit(String given) {
        return given == null || given.isBlank() ? 16L << 20 : Math.max(4096, Long.parseLong(given.strip()));
    }

    private void open() throws IOException {
        out = new FileOutputStream(file, true); // no channel: an interrupted thread would close it for everyone
        bytes = file.length();
    }

    void say(long token, String holder, String op, String path, String outcome, String reason) {
        count(token, op, path, outcome);
        ObjectNode line = Claim.JSON.createObjectNode();
        line.put("t", System.currentTimeMillis()).put("token", token).put("holder", holder).put("op", op);
        line.put("path", path).put("outcome", outcome).put("reason", reason);
        append((line + "\n").getBytes(StandardCharsets.UTF_8));
    }

    /** Counts a write that is not worth a line. */
    void count(long token, String op, String path, String outcome) {
        switch (outcome) {
            case ACCEPTED -> counters.accepted();
            case REFUSED -> counters.refused();
            default -> counters.unknown();
        }
        int name = path.lastIndexOf('/');
        if (outcome.equals(ACCEPTED) && op.equals("publish") && path.startsWith(COMMITS, name - COMMITS.length())) {
            long batch = ClaimedDirectory.number(path.substring(name + 1));
            if (batch >= 0) {
                counters.committed(token, path.substring(0, name - COMMITS.length()), batch);
            }
        }
    }

    private synchronized void append(byte[] line) {
        try {
            if (bytes > 0 && bytes + line.length > LIMIT_BYTES) {
                rotate();
            }
            if (broken) {
                out.write('\n'); // what was being written then may stand there in half
            }
            out.write(line);
            bytes += line.length + (broken ? 1 : 0);
            broken = false;
        } catch (IOException e) {
            if (!broken) {
                // a full disk must not turn into a second reason to stop writing; it is said, once, where somebody may see it
                System.err.println("understudy-fence: cannot write " + file + ": " + e.getMessage());
            }
            broken = true;
        }
    }

    private void rotate() throws IOException {
        out.close();
        File old = new File(file.getPath() + ".1");
        if (!file.renameTo(old) && !file.delete()) {
            new FileOutputStream(file).close(); // emptied: it must not grow, whoever keeps it
        }
        open();
    }

    long counted(String outcome) {
        return counters.count(outcome);
    }
}
