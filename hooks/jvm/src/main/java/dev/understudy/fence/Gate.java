package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.CRC32;

/**
 * Reader of the gate: one page of shared memory that the supervisor writes, and beside it the {@link ActivityPage}.
 *
 * <p>The gate says whether this process may write <em>now</em>. It never proves that nobody else may: that is what claims
 * are for. Every doubt (torn page, wrong checksum, unreadable clock) reads as closed.
 */
final class Gate {
    static final int MAGIC = 0x47445355;
    static final int VERSION = 1;
    static final int PAGE_BYTES = 4096;
    /** Bytes that a reader copies: everything up to and with the checksum. */
    static final int COPIED_BYTES = 80;

    private static final int CHECKED_BYTES = 76;
    private static final long READ_PATIENCE_NANOS = 5_000_000;
    private static final VarHandle LONGS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    /** Kept open, it is read many times a second. Not a channel: an interrupted thread must not find its clock closed. */
    private static RandomAccessFile uptime;

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

    /** One consistent copy of the page. Deadlines are nanoseconds on their own clock; {@code Long.MAX_VALUE} is never. */
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
        State stateAt(Now now) {
            return state == State.OPEN && past(now, closeBoottime, closeMonotonic) ? State.CLOSED : state;
        }

        boolean killDue(Now now) {
            return past(now, killBoottime, killMonotonic);
        }

        boolean parkDue(Now now) {
            return past(now, parkBoottime, parkMonotonic);
        }

        private static boolean past(Now now, long boottime, long monotonic) {
            // both clocks: CLOCK_MONOTONIC stands still while the machine sleeps, and a clock that cannot be read is past
            return now.boottime() >= boottime || now.monotonic() >= monotonic;
        }
    }

    /** One moment on both clocks, nanoseconds. */
    record Now(long boottime, long monotonic) {
        static Now read() {
            return new Now(boottimeNanos(), System.nanoTime());
        }
    }

    private final Path path;
    private final MappedByteBuffer page;
    private final ActivityPage activity;

    /** What was read once is final: a page that shows something else after it is a mistake, and opens nothing here. */
    private volatile View revoked;

    private Gate(Path path, MappedByteBuffer page, ActivityPage activity) {
        this.path = path;
        this.page = page;
        this.activity = activity;
    }

    /** Maps both pages; they stay mapped for the life of the process. Throws when either is missing or is no gate. */
    static Gate map(String gatePath) throws IOException {
        Path path = Path.of(gatePath);
        Gate gate = new Gate(path, mapped(path, PAGE_BYTES), ActivityPage.map(Path.of(gatePath + ".activity")));
        if (gate.page.getInt(0) != MAGIC || gate.page.getInt(4) != VERSION) {
            throw new IOException(path + " is no gate of version " + VERSION);
        }
        return gate;
    }

    private static MappedByteBuffer mapped(Path path, int bytes) throws IOException {
        if (Files.size(path) < bytes) {
            // a mapping past the end of a file ends in SIGBUS, not in an exception
            throw new IOException(path + " is shorter than " + bytes + " bytes");
        }
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            MappedByteBuffer buffer = channel.map(FileChannel.MapMode.READ_ONLY, 0, bytes);
            buffer.order(ByteOrder.LITTLE_ENDIAN);
            return buffer;
        }
    }

    Path path() {
        return path;
    }

    /** A consistent copy, or null when there is none to be had: the writer died in the middle, or the page is damaged. */
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

    private View readPage() {
        try {
            long begin = System.nanoTime();
            byte[] copy = new byte[COPIED_BYTES];
            while (true) {
                long before = (long) LONGS.getVolatile(page, 8);
                if ((before & 1) == 0) {
                    page.get(0, copy);
                    VarHandle.acquireFence();
                    if ((long) LONGS.getVolatile(page, 8) == before) {
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
            return null; // InternalError: the mapped file was cut short under us
        }
    }

    void describe(ObjectNode json) {
        View view = read();
        Now now = Now.read();
        json.put("readable", view != null);
        json.put("state", view == null ? "closed" : view.stateAt(now).name().toLowerCase(Locale.ROOT));
        json.put("token", view == null ? 0 : view.token());
    }

    /** The page's fields, or null when magic, version, checksum or state do not fit. */
    static View parse(byte[] copy) {
        ByteBuffer in = ByteBuffer.wrap(copy).order(ByteOrder.LITTLE_ENDIAN);
        CRC32 crc = new CRC32();
        crc.update(copy, 0, CHECKED_BYTES);
        State state = State.of(in.getInt(72));
        if (in.getInt(0) != MAGIC || in.getInt(4) != VERSION || (int) crc.getValue() != in.getInt(76) || state == null) {
            return null;
        }
        return new View(
                in.getLong(16),
                in.getLong(24),
                in.getLong(32),
                in.getLong(40),
                in.getLong(48),
                in.getLong(56),
                in.getLong(64),
                state);
    }

    /** What runs now that the gate cannot hold. */
    ActivityPage activity() {
        return activity;
    }

    /**
     * CLOCK_BOOTTIME from {@code /proc/uptime}, which cuts it to hundredths of a second: rounded up, so that a gate closes
     * up to 10 ms early and never late. {@code Long.MAX_VALUE} (past every deadline) when it cannot be read.
     */
    static long boottimeNanos() {
        byte[] bytes = new byte[64];
        int length;
        synchronized (Gate.class) {
            try {
                if (uptime == null) {
                    uptime = new RandomAccessFile("/proc/uptime", "r");
                }
                uptime.seek(0); // the kernel writes the file anew for every read from its start
                length = uptime.read(bytes);
            } catch (IOException e) {
                return Long.MAX_VALUE;
            }
        }
        long hundredths = 0;
        int decimals = -1;
        for (int i = 0; i < length && bytes[i] != ' '; i++) {
            if (bytes[i] == '.') {
                decimals = 0;
            } else if (bytes[i] >= '0' && bytes[i] <= '9') {
                hundredths = hundredths * 10 + (bytes[i] - '0');
                decimals += decimals >= 0 ? 1 : 0;
            } else {
                return Long.MAX_VALUE;
            }
        }
        return decimals == 2 ? (hundredths + 1) * 10_000_000L : Long.MAX_VALUE;
    }
}
