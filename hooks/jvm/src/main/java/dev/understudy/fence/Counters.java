package dev.understudy.fence;

import java.io.IOException;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharsetEncoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Writer of the counters page, which the driver's Python and the supervisor read; its layout is in
 * {@code understudy/protocol/counters.py}. This JVM is the page's only writer.
 *
 * <p>Counts survive a full disk and the rotation of the log. Not guaranteed: the count of a write
 * that landed just before the process was killed.
 */
final class Counters {
  static final int MAGIC = 0x43445355;
  static final int VERSION = 1;

  private static final int SEQUENCE = 8;
  private static final int ACCEPTED = 16;
  private static final int REFUSED = 24;
  private static final int UNKNOWN = 32;
  private static final int COMMITS = 40;
  private static final int LAST = 64;
  private static final int FIRST = 88;
  private static final int ROOT_LENGTH = 104;
  private static final int ROOT = 108;

  private final MappedByteBuffer page;

  private Counters(MappedByteBuffer page) {
    this.page = page;
  }

  static Path of(Path gate) {
    return Path.of(gate + ".counters");
  }

  /** Maps the page for the life of the process. Raises an {@link IOException} if there is none. */
  static Counters map(Path path) throws IOException {
    try (FileChannel channel =
        FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      MappedByteBuffer page = SharedPage.map(channel, path, FileChannel.MapMode.READ_WRITE);
      if (!SharedPage.begins(page, MAGIC, VERSION)) {
        throw new IOException(path + " is no counters page of version " + VERSION);
      }
      return new Counters(page);
    }
  }

  void add(WriteOutcome outcome) {
    SharedPage.LONGS.getAndAdd(page, at(outcome), 1L);
  }

  long count(WriteOutcome outcome) {
    return (long) SharedPage.LONGS.getVolatile(page, at(outcome));
  }

  /** Notes that a batch's commit has landed in {@code root}. */
  synchronized void committed(long token, String root, long batch) {
    long sequence = (long) SharedPage.LONGS.getVolatile(page, SEQUENCE);
    SharedPage.LONGS.setVolatile(page, SEQUENCE, sequence | 1);
    VarHandle.fullFence();
    page.putLong(LAST, System.currentTimeMillis());
    page.putLong(LAST + 8, batch);
    page.putLong(LAST + 16, token);
    if (page.getLong(FIRST) != token) {
      page.putLong(FIRST, token);
      page.putLong(FIRST + 8, batch);
      putRoot(root);
    }
    VarHandle.fullFence();
    SharedPage.LONGS.setVolatile(page, SEQUENCE, (sequence | 1) + 1);
    SharedPage.LONGS.getAndAdd(page, COMMITS, 1L);
  }

  private static int at(WriteOutcome outcome) {
    return switch (outcome) {
      case ACCEPTED -> ACCEPTED;
      case REFUSED -> REFUSED;
      case UNKNOWN -> UNKNOWN;
    };
  }

  private void putRoot(String root) {
    // by the encoder: it stops before a character that does not fit
    CharsetEncoder utf8 =
        StandardCharsets.UTF_8.newEncoder().onMalformedInput(CodingErrorAction.REPLACE);
    ByteBuffer room = ByteBuffer.allocate(SharedPage.BYTES - ROOT);
    utf8.encode(CharBuffer.wrap(root), room, true);
    page.putInt(ROOT_LENGTH, room.position());
    page.put(ROOT, room.array()); // with the zeros that follow: nothing of a longer root remains
  }
}
