package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One JSON object per line for every write that landed or was refused. Every count of stale writes comes from here.
 *
 * <p>Each line is one write(2) to a file opened with O_APPEND. Not guaranteed: a line about a write that landed just
 * before the process was killed. At {@link #LIMIT_BYTES} the file becomes {@code <name>.1} (replacing an older one).
 */
final class FenceLog {
    static final String ACCEPTED = "accepted";
    static final String REFUSED = "refused";
    /** The request's answer was lost: it may have landed, or may yet. */
    static final String UNKNOWN = "unknown";

    private static final long LIMIT_BYTES = 64L << 20;

    private final File file;
    private final AtomicLong accepted = new AtomicLong();
    private final AtomicLong refused = new AtomicLong();
    private final AtomicLong lost = new AtomicLong();
    private FileOutputStream out;
    private long bytes;

    FenceLog(String path) throws IOException {
        file = new File(path);
        File directory = file.getAbsoluteFile().getParentFile();
        if (!directory.isDirectory() && !directory.mkdirs() && !directory.isDirectory()) {
            throw new IOException("cannot create " + directory);
        }
        open();
    }

    private void open() throws IOException {
        out = new FileOutputStream(file, true); // no channel: an interrupted thread would close it for everyone
        bytes = file.length();
    }

    void say(long token, String holder, String op, String path, String outcome, String reason) {
        switch (outcome) {
            case ACCEPTED -> accepted.incrementAndGet();
            case REFUSED -> refused.incrementAndGet();
            default -> lost.incrementAndGet();
        }
        ObjectNode line = Claim.JSON.createObjectNode();
        line.put("t", System.currentTimeMillis()).put("token", token).put("holder", holder).put("op", op);
        line.put("path", path).put("outcome", outcome).put("reason", reason);
        append((line + "\n").getBytes(StandardCharsets.UTF_8));
    }

    private synchronized void append(byte[] line) {
        try {
            if (bytes + line.length > LIMIT_BYTES) {
                out.close();
                file.renameTo(new File(file.getPath() + ".1"));
                open();
            }
            out.write(line);
            bytes += line.length;
        } catch (IOException e) {
            // a full disk must not turn into a second reason to stop writing; it is said where somebody may see it
            System.err.println("understudy-fence: cannot write " + file + ": " + e.getMessage());
        }
    }

    long accepted() {
        return accepted.get();
    }

    long refused() {
        return refused.get();
    }

    long unknown() {
        return lost.get();
    }
}
