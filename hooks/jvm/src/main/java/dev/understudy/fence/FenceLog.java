package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * One JSON object per line for every write that landed or was refused, except for state files that
 * landed. For people, and for tests that count stale writes. Programs read {@link Counters}, which
 * every write reaches first.
 *
 * <p>Each line is one write(2) to a file opened with O_APPEND. Not guaranteed: a line about a write
 * that landed just before the process was killed, and any line on a full disk. At {@link
 * #LIMIT_BYTES} the file becomes {@code <name>.1} (replacing an older one), so a driver has two of
 * them at most.
 */
final class FenceLog {
  private static final String COMMITS = "/commits";
  private static final long LIMIT_BYTES = limit(System.getenv("UNDERSTUDY_FENCE_LOG_LIMIT"));

  private final String holder;
  private final File file;
  private final Counters counters;
  private FileOutputStream out;
  private long bytes;
  private boolean broken;

  FenceLog(String path, String holder, Counters counters) throws IOException {
    this.holder = holder;
    this.counters = counters;
    file = new File(path);
    File directory = file.getAbsoluteFile().getParentFile();
    if (!directory.isDirectory() && !directory.mkdirs() && !directory.isDirectory()) {
      throw new IOException("cannot create " + directory);
    }
    open();
  }

  private static long limit(String given) {
    return given == null || given.isBlank()
        ? 16L << 20
        : Math.max(4096, Long.parseLong(given.strip()));
  }

  private void open() throws IOException {
    // no channel: an interrupted thread would close it for all others
    out = new FileOutputStream(file, true);
    bytes = file.length();
  }

  /** Counts a write, and writes a line about it. */
  void write(long token, String op, String path, WriteOutcome outcome, String reason) {
    count(token, op, path, outcome);
    ObjectNode line = Claim.JSON.createObjectNode();
    line.put("t", System.currentTimeMillis()).put("token", token).put("holder", holder);
    line.put("op", op).put("path", path).put("outcome", outcome.text).put("reason", reason);
    append((line + "\n").getBytes(StandardCharsets.UTF_8));
  }

  /** Counts a write that is not worth a line. */
  void count(long token, String op, String path, WriteOutcome outcome) {
    counters.add(outcome);
    int name = path.lastIndexOf('/');
    int commits = name - COMMITS.length();
    if (outcome == WriteOutcome.ACCEPTED
        && op.equals("publish")
        && path.startsWith(COMMITS, commits)) {
      long batch = BatchInFlight.number(path.substring(name + 1));
      if (batch >= 0) {
        counters.committed(token, path.substring(0, commits), batch);
      }
    }
  }

  long counted(WriteOutcome outcome) {
    return counters.count(outcome);
  }

  private synchronized void append(byte[] line) {
    try {
      if (bytes > 0 && bytes + line.length > LIMIT_BYTES) {
        rotate();
      }
      if (broken) {
        out.write('\n'); // ends the line that the failed write may have left in half
      }
      out.write(line);
      bytes += line.length + (broken ? 1 : 0);
      broken = false;
    } catch (IOException e) {
      if (!broken) {
        // a full disk must not become a second reason to stop writing: it is reported once, to
        // where the driver's log goes
        System.err.println("understudy-fence: cannot write " + file + ": " + e.getMessage());
      }
      broken = true;
    }
  }

  private void rotate() throws IOException {
    out.close();
    File old = new File(file.getPath() + ".1");
    if (!file.renameTo(old) && !file.delete()) {
      new FileOutputStream(file).close(); // emptied: it must not grow, even where it cannot move
    }
    open();
  }
}
