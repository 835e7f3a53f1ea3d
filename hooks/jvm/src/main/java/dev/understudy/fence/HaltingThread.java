package dev.understudy.fence;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/**
 * Ends this process at its deadlines, so that a frozen or dead supervisor leaves no writer behind.
 *
 * <p>It halts at the kill deadline if user code runs that the gate cannot hold. Otherwise the
 * driver is parked, and halts at the park deadline. After a revocation it gives the supervisor,
 * which kills at once, 200 ms. A standby never halts.
 *
 * <p>Not guaranteed: anything while the process itself is frozen. It halts within 50 ms of its
 * thaw, and the gate is closed until then.
 */
final class HaltingThread extends Thread {
  static final int EXIT_CODE = 86;

  /**
   * What every process of a driver carries in its environment; the same name stands in {@code
   * driver_spec.py}.
   */
  private static final String HOLDER_VARIABLE = "UNDERSTUDY_HOLDER";

  private static final long TICK_MILLIS = 50;
  private static final long REVOKED_NANOS = 200_000_000;

  /**
   * Python counts itself busy <em>before</em> it looks at the gate: a parked one flickers and must
   * not die of it.
   */
  private static final int BUSY_SAMPLES = 6;

  private static final long BUSY_SAMPLE_MILLIS = 4;

  private final Gate gate;
  private final String holder;
  private final FenceLog log;
  private final Optional<ProcessHandle> driver;
  private Gate.View last;
  private long revokedSince;

  @SuppressWarnings("ThreadPriorityCheck") // it sleeps nearly always, and must not be late
  HaltingThread(Gate gate, String holder, FenceLog log) {
    super("understudy-halt");
    this.gate = gate;
    this.holder = holder;
    this.log = log;
    // remembered now: after the parent's death parent() is the process that adopts orphans, not
    // ours to kill
    this.driver = ProcessHandle.current().parent();
    setDaemon(true);
    setPriority(MAX_PRIORITY);
  }

  @Override
  public void run() {
    while (true) {
      String reason = reason();
      if (reason != null) {
        halt(reason);
      }
      try {
        Thread.sleep(TICK_MILLIS);
      } catch (InterruptedException e) {
        // this thread is never asked to stop
      }
    }
  }

  private String reason() {
    Gate.View seen = gate.read();
    if (seen != null) {
      last = seen; // a torn page keeps the deadlines it had
    }
    if (last == null || last.state() == Gate.State.STANDBY) {
      revokedSince = 0;
      return null;
    }
    if (last.state() == Gate.State.REVOKED) {
      long now = System.nanoTime();
      revokedSince = revokedSince == 0 ? now : revokedSince;
      return now - revokedSince > REVOKED_NANOS ? "revoked" : null;
    }
    revokedSince = 0;
    Moment now = Moment.now();
    if (last.parkDue(now)) {
      return "park-deadline";
    }
    return last.killDue(now) && busy() ? "kill-deadline" : null;
  }

  private boolean busy() {
    for (int i = 0; i < BUSY_SAMPLES; i++) {
      if (gate.activity().running() == 0) {
        return false;
      }
      try {
        Thread.sleep(BUSY_SAMPLE_MILLIS);
      } catch (InterruptedException e) {
        // as above
      }
    }
    return true;
  }

  private void halt(String reason) {
    try {
      log.write(last.token(), "halt", gate.path().toString(), WriteOutcome.REFUSED, reason);
      killSession();
    } finally {
      Runtime.getRuntime().halt(EXIT_CODE);
    }
  }

  /** The driver's Python first: it is the one that could start something new. */
  private void killSession() {
    ProcessHandle self = ProcessHandle.current();
    long session = ProcessStat.session(self.pid());
    long parent = self.parent().map(ProcessHandle::pid).orElse(0L);
    // an adopted orphan's new parent, an interactive shell's session: neither is the driver's
    boolean parentIsDriver =
        parent > 1
            && driver.isPresent()
            && driver.get().pid() == parent
            && ProcessStat.session(parent) == session;
    if (parentIsDriver) {
      driver.get().destroyForcibly();
    }
    self.descendants().forEach(ProcessHandle::destroyForcibly);
    if (session > 1 && driver.isPresent() && session == driver.get().pid()) {
      killAllOf(session, self.pid());
    }
  }

  /**
   * Python's workers leave the process group and may lose their parent, but they stay in the
   * session. What the script made a daemon has left the session too, and keeps the holder's mark in
   * its environment.
   */
  private void killAllOf(long session, long self) {
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
      for (Path entry : entries) {
        long pid = Long.parseLong(entry.getFileName().toString());
        if (pid != self && (ProcessStat.session(pid) == session || isMarked(entry))) {
          ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
        }
      }
    } catch (IOException | RuntimeException e) {
      return; // halting comes next, and the rest dies with its parent
    }
  }

  private boolean isMarked(Path process) {
    try {
      String environment =
          Files.readString(process.resolve("environ"), StandardCharsets.ISO_8859_1);
      return ("\0" + environment + "\0").contains("\0" + HOLDER_VARIABLE + "=" + holder + "\0");
    } catch (IOException e) {
      return false; // gone, or another user's
    }
  }
}
