package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.atomic.AtomicReference;

/** The first reason for which this driver cannot work, and neither can the next one. The driver's Python asks for it. */
record Refusal(String kind, String where, String what) {
    private static final AtomicReference<Refusal> FIRST = new AtomicReference<>();

    static void note(Refusal refusal) {
        FIRST.compareAndSet(null, refusal);
    }

    static String noted() {
        Refusal first = FIRST.get();
        if (first == null) {
            return "";
        }
        ObjectNode json = Claim.JSON.createObjectNode();
        json.put("kind", first.kind).put("where", first.where).put("what", first.what);
        return json.toString();
    }

    /** A claim of another job, cluster or kind of lock; of any other outcome nothing is noted. */
    static void noteForeign(String root, Claims.Outcome outcome) {
        if (outcome.verdict().foreign()) {
            Claim there = outcome.standing().claim();
            String owner = "job " + there.job() + " of cluster " + there.cluster() + " (lock: " + there.lock() + ")";
            note(new Refusal("foreign", root, "it is claimed by " + owner));
        }
    }

    static Refusal unfit(UnfitStoreException e) {
        return new Refusal("unfit", e.bucket(), e.getMessage());
    }

    /** A verdict's reason in the words of an exception that a script sees. */
    static String words(String reason) {
        return switch (reason) {
            case "other-job", "other-cluster", "other-lock" -> reason
                    + ": it is claimed as a whole, as a checkpoint or by a streaming file sink, and not by this job. "
                    + "Jobs may share a directory only if each appends in batches";
            default -> reason;
        };
    }
}
