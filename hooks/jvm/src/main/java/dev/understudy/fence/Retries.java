package dev.understudy.fence;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * How often, and after which pauses, one request is sent again: while it certainly has not been done, and for a bounded time.
 *
 * <p>Whoever writes asks the gate and the claim before <em>each</em> attempt. Seen without it: plain Spark met nine answers of
 * 503 and went on, while each of six ended a driver of ours.
 */
final class Retries extends Patience {
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(60);
    private static final long FIRST_PAUSE_MILLIS = 50;
    private static final long LONGEST_PAUSE_MILLIS = 2_000;

    interface Request<T> {
        T send() throws IOException;
    }

    private final boolean repeatable;
    private int failures;

    /** Of a write that may be done once. */
    Retries() {
        this(false);
    }

    private Retries(boolean repeatable) {
        this.repeatable = repeatable;
    }

    /** Of what may be done twice, and so is sent again although nobody knows what came of it: reads, deletes, claims. */
    static Retries ofRepeatable() {
        return new Retries(true);
    }

    /** Whether a write that failed so may be sent again. */
    static boolean allow(Failure failure) {
        return failure == Failure.NOT_DONE || failure == Failure.OVER;
    }

    /** Returns after a pause if the request may be sent again, else throws {@code failure}. */
    void pause(IOException failure) throws IOException {
        Failure kind = Failure.of(failure);
        boolean allowed = allow(kind) || (repeatable && kind == Failure.UNANSWERED);
        if (!allowed || spent() >= PATIENCE_NANOS) {
            throw failure;
        }
        try {
            Thread.sleep(pauseMillis(failures++, ThreadLocalRandom.current().nextDouble()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            InterruptedIOException interrupted = new InterruptedIOException("interrupted while waiting to try again");
            interrupted.initCause(failure);
            throw interrupted;
        }
    }

    /** Doubles, and is jittered by half, so that many writers do not come back in step. {@code dice} is in [0, 1). */
    static long pauseMillis(int failures, double dice) {
        long whole = Math.min(LONGEST_PAUSE_MILLIS, FIRST_PAUSE_MILLIS << Math.min(failures, 10));
        return whole / 2 + (long) (dice * (whole - whole / 2));
    }

    /** For what changes nothing that counts: needs no gate. */
    static <T> T reading(Request<T> request) throws IOException {
        Retries retries = ofRepeatable();
        while (true) {
            try {
                return request.send();
            } catch (IOException e) {
                retries.pause(e);
            }
        }
    }
}
