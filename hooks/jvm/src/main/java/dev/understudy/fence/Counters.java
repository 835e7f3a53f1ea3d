package dev.understudy.fence;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharsetEncoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Writer of the counters page, which the driver's Python and the supervisor read; its layout is in
 * {@code understudy/fencing/counters.py}. This JVM is the page's only writer.
 *
 * <p>Counts survive a full disk and the rotation of the log. Not guaranteed: the count of a write that landed just before
 * the process was killed.
 */
final class Counters {
    static final int MAGIC = 0x43445355;
    static final int VERSION = 1;
    static final int PAGE_BYTES = 4096;

    private static final int SEQUENCE = 8;
    private static final int ACCEPTED = 16;
    private static final int REFUSED = 24;
    private static final int UNKNOWN = 32;
    private static final int COMMITS = 40;
    private static final int LAST = 64;
    private static final int FIRST = 88;
    private static final int ROOT = 108;
    private static final VarHandle LONGS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final MappedByteBuffer page;

    private Counters(MappedByteBuffer page) {
        this.page = page;
    }

    static Path of(Path gate) {
        return Path.of(gate + ".counters");
    }

    /** Maps the page for the life of the process. Throws when there is none. */
    static Counters map(Path path) throws IOException {
        if (Files.size(path) < PAGE_BYTES) {
            throw new IOException(path + " is shorter than " + PAGE_BYTES + " bytes");
        }
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer page = channel.map(FileChannel.MapMode.READ_WRITE, 0, PAGE_BYTES);
            page.order(ByteOrder.LITTLE_ENDIAN);
            if (page.getInt(0) != MAGIC || page.getInt(4) != VERSION) {
                throw new IOException(path + " is no counters page of version " + VERSION);
            }
            return new Counters(page);
        }
    }

    void accepted() {
        add(ACCEPTED);
    }

    void refused() {
        add(REFUSED);
    }

    void unknown() {
        add(UNKNOWN);
    }

    /** A batch's commit has landed in {@code root}. */
    synchronized void committed(long token, String root, long batch) {
        long sequence = (long) LONGS.getVolatile(page, SEQUENCE);
        LONGS.setVolatile(page, SEQUENCE, sequence | 1);
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
        LONGS.setVolatile(page, SEQUENCE, (sequence | 1) + 1);
        add(COMMITS);
    }

    long count(String outcome) {
        return switch (outcome) {
            case FenceLog.ACCEPTED -> (long) LONGS.getVolatile(page, ACCEPTED);
            case FenceLog.REFUSED -> (long) LONGS.getVolatile(page, REFUSED);
            default -> (long) LONGS.getVolatile(page, UNKNOWN);
        };
    }

    private void add(int at) {
        LONGS.getAndAdd(page, at, 1L);
    }

    private void putRoot(String root) {
        // by the encoder: it stops before a character that does not fit
        CharsetEncoder utf8 = StandardCharsets.UTF_8.newEncoder().onMalformedInput(CodingErrorAction.REPLACE);
        ByteBuffer room = ByteBuffer.allocate(PAGE_BYTES - ROOT);
        utf8.encode(java.nio.CharBuffer.wrap(root), room, true);
        page.putInt(ROOT - 4, room.position());
        page.put(ROOT, room.array(), 0, room.position());
    }
}
