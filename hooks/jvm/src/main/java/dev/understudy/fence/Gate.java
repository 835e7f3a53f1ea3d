package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.CRC32;

/**
 * Reader of the gate: one page of shared memory that the supervisor writes, and next to it the
 * {@link ActivityPage}. {@code understudy/protocol/gate.py} describes the page.
 *
 * <p>The gate says whether this process may write <em>now</em>. It never proves that no other
 * process may: claims do. Every doubt (torn page, wrong checksum, unreadable clock) reads as
 * closed.
 */
final class Gate {
  static final int MAGIC = 0x47445355;
  static final int VERSION = 1;

  /** Bytes that a reader copies: everything up to and with the checksum. */
  static final int COPIED_BYTES = 80;

  private static final int SEQUENCE = 8;
  private static final int CHECKED_BYTES = 76;
  private static final long READ_PATIENCE_NANOS = 5_000_000;

  enum State {
    STANDBY(1),
    OPEN(2),
    CLOSED(3),
    REVOKED(4);

    final int code;

    State(int code) {
      this.code = code;
    }

    static State of(int code) {
      for (State state : values()) {
        if (state.code == code) {
          return state;
        }
      }
      return null;
    }
  }

  /**
   * One consistent copy of the page. Deadlines are nanoseconds on their own clock; {@code
   * Long.MAX_VALUE} is never.
   */
  record View(
      long token,
      long closeBoottime,
      long closeMonotonic,
      long killBoottime,
      long killMonotonic,
      long parkBoottime,
      long parkMonotonic,
      State state) {

    /** The state that counts: an open gate past its deadline, on either clock, is a closed one. */
    State stateAt(Moment now) {
      return state == State.OPEN && past(now, closeBoottime, closeMonotonic) ? State.CLOSED : state;
    }

    boolean killDue(Moment now) {
      return past(now, killBoottime, killMonotonic);
    }

    boolean parkDue(Moment now) {
      return past(now, parkBoottime, parkMonotonic);
    }

    private static boolean past(Moment now, long boottime, long monotonic) {
      // both clocks: CLOCK_MONOTONIC stands still while the machine sleeps, and a clock that cannot
      // be read is past every deadline
      return now.boottime() >= boottime || now.monotonic() >= monotonic;
    }
  }

  private final Path path;
  private final MappedByteBuffer page;
  private final ActivityPage activity;

  /** Revoked is final: a page that shows something else later is a mistake, and opens nothing. */
  private volatile View revoked;

  private Gate(Path path, MappedByteBuffer page, ActivityPage activity) {
    this.path = path;
    this.page = page;
    this.activity = activity;
  }

  /**
   * Maps both pages; they stay mapped for the life of the process. Raises an {@link IOException} if
   * one of them is missing, or is no gate.
   */
  static Gate map(String gatePath) throws IOException {
    Path path = Path.of(gatePath);
    MappedByteBuffer page;
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      page = SharedPage.map(channel, path, FileChannel.MapMode.READ_ONLY);
    }
    Gate gate = new Gate(path, page, ActivityPage.map(Path.of(gatePath + ".activity")));
    if (!SharedPage.begins(page, MAGIC, VERSION)) {
      throw new IOException(path + " is no gate of version " + VERSION);
    }
    return gate;
  }

  Path path() {
    return path;
  }

  /** What runs now that the gate cannot hold. */
  ActivityPage activity() {
    return activity;
  }

  /**
   * Returns a consistent copy, or null if there is none: the writer died in the middle, or the page
   * is damaged.
   */
  View read() {
    if (revoked == null) {
      View view = readPage();
      if (view == null || view.state() != State.REVOKED) {
        return view;
      }
      revoked = view;
    }
    return revoked;
  }

  /** Whether the gate is open now, for the process that has this token. */
  boolean isOpen(long token) {
    View view = read();
    return view != null && view.token() == token && view.stateAt(Moment.now()) == State.OPEN;
  }

  private View readPage() {
    try {
      long begin = System.nanoTime();
      byte[] copy = new byte[COPIED_BYTES];
      while (true) {
        long before = (long) SharedPage.LONGS.getVolatile(page, SEQUENCE);
        if ((before & 1) == 0) {
          page.get(0, copy);
          VarHandle.acquireFence();
          if ((long) SharedPage.LONGS.getVolatile(page, SEQUENCE) == before) {
            View view = parse(copy);
            if (view != null) {
              return view;
            }
          }
        }
        if (System.nanoTime() - begin > READ_PATIENCE_NANOS) {
          return null;
        }
        LockSupport.parkNanos(50_000);
      }
    } catch (RuntimeException | InternalError e) {
      return null; // InternalError: the mapped file was cut short
    }
  }

  void describe(ObjectNode json) {
    View view = read();
    State state = view == null ? State.CLOSED : view.stateAt(Moment.now());
    json.put("readable", view != null);
    json.put("state", state.name().toLowerCase(Locale.ROOT));
    json.put("token", view == null ? 0 : view.token());
  }

  /** Returns the page's fields, or null if one of them, or the checksum, does not fit. */
  static View parse(byte[] copy) {
    ByteBuffer in = ByteBuffer.wrap(copy).order(ByteOrder.LITTLE_ENDIAN);
    CRC32 crc = new CRC32();
    crc.update(copy, 0, CHECKED_BYTES);
    State state = State.of(in.getInt(72));
    long token = in.getLong(16);
    if (in.getInt(0) != MAGIC
        || in.getInt(4) != VERSION
        || (int) crc.getValue() != in.getInt(CHECKED_BYTES)
        || token < 0
        || state == null) {
      return null;
    }
    return new View(
        token,
        in.getLong(24),
        in.getLong(32),
        in.getLong(40),
        in.getLong(48),
        in.getLong(56),
        in.getLong(64),
        state);
  }
}
