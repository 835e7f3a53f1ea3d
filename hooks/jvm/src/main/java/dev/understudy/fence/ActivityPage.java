package dev.understudy.fence;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * How much runs in this driver's processes that the gate cannot hold. Each process counts in a slot of its own, named by its
 * pid and its start time; {@code understudy/fencing/activity.py} describes the page.
 *
 * <p>Every doubt counts as busy: a driver that is killed too early costs a start, one that is parked too long costs rows.
 */
final class ActivityPage {
    static final int BYTES = 4096;

    private static final int SLOT_BYTES = 32;
    private static final int STARTED = 8;
    private static final int COUNT = 16;
    private static final VarHandle LONGS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final MappedByteBuffer page;
    /** Where this process counts: in its slot, or in the count of those without. */
    private final int own;

    private ActivityPage(MappedByteBuffer page, int own) {
        this.page = page;
        this.own = own;
    }

    /** Maps the page and takes a slot; both last as long as this process. */
    static ActivityPage map(Path path) throws IOException {
        if (Files.size(path) < BYTES) {
            // a mapping past the end of a file ends in SIGBUS, not in an exception
            throw new IOException(path + " is shorter than " + BYTES + " bytes");
        }
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw");
                FileChannel channel = file.getChannel();
                FileLock lock = channel.lock()) {
            MappedByteBuffer page = channel.map(FileChannel.MapMode.READ_WRITE, 0, BYTES);
            page.order(ByteOrder.LITTLE_ENDIAN);
            return new ActivityPage(page, lock.isValid() ? takeSlot(page) : 0);
        }
    }

    private static int takeSlot(MappedByteBuffer page) {
        long pid = ProcessHandle.current().pid();
        long started = startedAt(pid);
        for (int at = SLOT_BYTES; started >= 0 && at < BYTES; at += SLOT_BYTES) {
            long owner = page.getLong(at);
            if (owner == 0 || startedAt(owner) != page.getLong(at + STARTED)) {
                LONGS.setVolatile(page, at + COUNT, 0L);
                page.putLong(at, pid);
                page.putLong(at + STARTED, started);
                return at + COUNT;
            }
        }
        return 0;
    }

    /** Changes what this process counts. */
    void add(long change) {
        long before = (long) LONGS.getAndAdd(page, own, change);
        assert before + change >= 0;
    }

    /** The sum over the processes that live. An unreadable page counts as one. */
    long running() {
        try {
            long count = (long) LONGS.getVolatile(page, 0);
            for (int at = SLOT_BYTES; at < BYTES; at += SLOT_BYTES) {
                long here = (long) LONGS.getVolatile(page, at + COUNT);
                if (here != 0 && startedAt(page.getLong(at)) == page.getLong(at + STARTED)) {
                    count += here;
                }
            }
            return count;
        } catch (RuntimeException | InternalError e) {
            return 1; // InternalError: the mapped file was cut short under us
        }
    }

    /** When a living process began, in ticks since the boot; -1 for a dead one. */
    private static long startedAt(long pid) {
        try {
            String[] fields = HaltingThread.statOf(pid);
            boolean ended = (fields[0].equals("Z") || fields[0].equals("X")) && Long.parseLong(fields[17]) <= 1;
            return ended ? -1 : Long.parseLong(fields[19]);
        } catch (IOException | RuntimeException e) {
            return -1;
        }
    }
}
