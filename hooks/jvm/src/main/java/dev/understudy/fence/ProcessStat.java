package dev.understudy.fence;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the kernel tells about a process in {@code /proc/<pid>/stat}. */
final class ProcessStat {
  private static final int STATE = 0;
  private static final int SESSION = 3;
  private static final int THREADS = 17;
  private static final int STARTED = 19;

  private ProcessStat() {}

  /** Returns the session of a process; 0 if it is unknown. */
  static long session(long pid) {
    try {
      return Long.parseLong(fields(pid)[SESSION]);
    } catch (IOException | RuntimeException e) {
      return 0;
    }
  }

  /** Returns when a living process began, in ticks since the boot; -1 for one that has ended. */
  static long startedAt(long pid) {
    try {
      String[] fields = fields(pid);
      boolean zombie = fields[STATE].equals("Z") || fields[STATE].equals("X");
      // a process whose first thread has ended is a zombie as well, while its other threads run
      boolean ended = zombie && Long.parseLong(fields[THREADS]) <= 1;
      return ended ? -1 : Long.parseLong(fields[STARTED]);
    } catch (IOException | RuntimeException e) {
      return -1;
    }
  }

  /** What follows the command: state, parent, group, session … */
  private static String[] fields(long pid) throws IOException {
    String stat = Files.readString(Path.of("/proc/" + pid + "/stat"), StandardCharsets.ISO_8859_1);
    // the command stands in brackets and may contain anything, brackets too
    return stat.substring(stat.lastIndexOf(')') + 2).split(" ");
  }
}
