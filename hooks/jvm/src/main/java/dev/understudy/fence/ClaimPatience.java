package dev.understudy.fence;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.util.concurrent.TimeUnit;

/**
 * How long a store may be out of reach before a claim fails, and with it the driver. After an outage leaders and stores come back
 * in any order, and a driver that gives up takes far longer to be back.
 */
final class ClaimPatience extends Patience {
    private static final long ANY_NANOS = 5_000_000_000L;
    private static final long TIMEOUTS = 3;
    /** What a store gets that answers that it is too busy, or that takes no connection. */
    private static final long BUSY_NANOS = 60_000_000_000L;

    private static final long PAUSE_MILLIS = 200;

    private final long patience;

    ClaimPatience(long writeTimeoutMillis) {
        patience = Math.max(ANY_NANOS, TimeUnit.MILLISECONDS.toNanos(TIMEOUTS * writeTimeoutMillis));
    }

    /** Returns after a pause if the claim may be tried again, else throws {@code failure}. */
    void pause(IOException failure) throws IOException {
        // a time-out is an InterruptedIOException as well, and no request to stop
        boolean stopped = failure instanceof InterruptedIOException && !(failure instanceof SocketTimeoutException);
        long limit = Retries.allow(Failure.of(failure)) ? Math.max(BUSY_NANOS, patience) : patience;
        if (stopped || spent() >= limit) {
            throw failure;
        }
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            InterruptedIOException interrupted = new InterruptedIOException("interrupted while waiting to claim again");
            interrupted.initCause(failure);
            throw interrupted;
        }
    }
}
