package dev.understudy.fence;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.function.LongUnaryOperator;

/**
 * How much runs in this driver's processes that the gate cannot hold. Each process counts in its
 * own slot, named by its pid and its start time; {@code understudy/protocol/activity.py} describes
 * the page.
 *
 * <p>Every doubt counts as busy: a driver that is killed too early costs a start, one that is
 * parked too long costs rows.
 */
final class ActivityPage {
  private static final int SLOT_BYTES = 32;
  private static final int STARTED = 8;
  private static final int COUNT = 16;

  private final MappedByteBuffer page;

  /** Where this process counts: in its slot, or in the count of those without one. */
  private final int own;

  private ActivityPage(MappedByteBuffer page, int own) {
    this.page = page;
    this.own = own;
  }

  /** Maps the page and takes a slot; both last as long as this process. */
  static ActivityPage map(Path path) throws IOException {
    try (FileChannel channel =
            FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
        FileLock lock = channel.lock()) {
      MappedByteBuffer page = SharedPage.map(channel, path, FileChannel.MapMode.READ_WRITE);
      return new ActivityPage(page, lock.isValid() ? takeSlot(page) : 0);
    }
  }

  private static int takeSlot(MappedByteBuffer page) {
    long pid = ProcessHandle.current().pid();
    long started = ProcessStat.startedAt(pid);
    for (int at = SLOT_BYTES; started >= 0 && at < SharedPage.BYTES; at += SLOT_BYTES) {
      long owner = page.getLong(at);
      if (owner == 0 || ProcessStat.startedAt(owner) != page.getLong(at + STARTED)) {
        SharedPage.LONGS.setVolatile(page, at + COUNT, 0L);
        page.putLong(at, pid);
        page.putLong(at + STARTED, started);
        return at + COUNT;
      }
    }
    return 0;
  }

  /** Changes what this process counts. */
  void add(long change) {
    long before = (long) SharedPage.LONGS.getAndAdd(page, own, change);
    assert before + change >= 0;
  }

  /** Returns the sum over the living processes. An unreadable page counts as one. */
  long running() {
    try {
      return running(page, ProcessStat::startedAt);
    } catch (RuntimeException | InternalError e) {
      return 1; // InternalError: the mapped file was cut short
    }
  }

  /**
   * @param startedAt when a process began; -1 for a dead one
   */
  static long running(ByteBuffer page, LongUnaryOperator startedAt) {
    long count = (long) SharedPage.LONGS.getVolatile(page, 0);
    for (int at = SLOT_BYTES; at < SharedPage.BYTES; at += SLOT_BYTES) {
      long here = (long) SharedPage.LONGS.getVolatile(page, at + COUNT);
      if (here != 0 && startedAt.applyAsLong(page.getLong(at)) == page.getLong(at + STARTED)) {
        count += here;
      }
    }
    return count;
  }
}
