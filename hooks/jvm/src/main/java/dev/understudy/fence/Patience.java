package dev.understudy.fence;

import java.io.IOException;

/** How long something has been tried. What waits for the gate does not count: a leader that was parked has met no failure meanwhile. */
abstract class Patience {
    private long began = System.nanoTime();

    final <T> T uncounted(Retries.Request<T> wait) throws IOException {
        long from = System.nanoTime();
        T answer = wait.send();
        began += System.nanoTime() - from;
        return answer;
    }

    /** Nanoseconds. */
    final long spent() {
        return System.nanoTime() - began;
    }
}
