package dev.understudy.fence;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

/** Called from the driver's Python, which knows where queries write: their sinks ask no gate, because tasks write to them. */
public final class UngatedSinks {
    private UngatedSinks() {}

    /**
     * A driver with a batch in flight of the query with the checkpoint {@code root} is busy from now on, and never parked.
     * With {@code always} even between batches: for queries that write their offsets when a batch has ended. Until the
     * query is forgotten.
     */
    public static void count(String root, Configuration conf, boolean always) throws IOException {
        Fence.countBatches(root, conf, always);
    }
}
