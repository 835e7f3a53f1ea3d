package dev.understudy.fence;

import java.io.IOException;

/**
 * The claim of one job in a directory that its batches write to: {@code _understudy/outputs/<cluster>/<job>}. It fences the job
 * from its own past and nobody else, so that several jobs may append to one table.
 *
 * <p>A streaming file sink is another matter: its log has one writer, and the claim of that one is {@code _understudy/claim}. What
 * stands there decides which of the two is ours. A claim of this very job is used as it is, as a release
 * before this layout made it and may be frozen under it. Another job's is in the way where a streaming sink keeps its log;
 * otherwise it is an older release's claim of that job's batches, and none of our business.
 */
final class OutputClaims implements ClaimStore {
    /** Whether a streaming file sink keeps its log in the directory. */
    interface Streams {
        boolean logged() throws IOException;
    }

    private static final String OURS = "ours:";

    private final ClaimStore whole;
    private final ClaimStore ours;
    private final boolean local;
    private final String cluster;
    private final String job;
    private final Streams streams;
    private volatile boolean leftAlone; // what stands for the whole directory is none of ours: looked up once where that costs requests

    OutputClaims(ClaimStore whole, ClaimStore ours, boolean local, String cluster, String job, Streams streams) {
        this.local = local;
        this.whole = whole;
        this.ours = ours;
        this.cluster = cluster;
        this.job = job;
        this.streams = streams;
    }

    /** Where one job keeps its claim, below {@link Claim#DIRECTORY}. Both ids are DNS labels. */
    static String directory(String cluster, String job) {
        return Claim.DIRECTORY + "/outputs/" + cluster + "/" + job;
    }

    private boolean wholeIsOurPlace(Standing there) throws IOException {
        if (there.nothing()) {
            return false;
        }
        Claim claim = there.claim();
        if (claim == null) {
            return true; // unreadable, and so refused
        }
        return (claim.cluster().equals(cluster) && claim.job().equals(job)) || streams.logged();
    }

    @Override
    public void requireConditions() throws IOException {
        whole.requireConditions();
    }

    @Override
    public Standing read() throws IOException {
        if (!leftAlone) {
            Standing there = whole.read();
            if (wholeIsOurPlace(there)) {
                return there;
            }
            leftAlone = !local;
        }
        Standing found = ours.read();
        return found.nothing() ? found : new Standing(OURS + found.revision(), found.claim());
    }

    @Override
    public boolean replace(Standing seen, Claim claim) throws IOException {
        return seen.nothing() || isOurs(seen) ? ours.replace(untagged(seen), claim) : whole.replace(seen, claim);
    }

    /**
     * On a local disk, where looking costs little, also whether a replica of a release before this layout has claimed the directory
     * as a whole since: after a rollback it leads, and we may have been frozen.
     */
    @Override
    public boolean stands(Standing seen) throws IOException {
        if (!isOurs(seen)) {
            return whole.stands(seen);
        }
        return ours.stands(untagged(seen)) && !(local && wholeIsOurPlace(whole.read()));
    }

    /** The revision tells of which of the two places a standing claim is. */
    private static boolean isOurs(Standing seen) {
        return seen.revision().startsWith(OURS);
    }

    private static Standing untagged(Standing seen) {
        return seen.nothing() ? seen : new Standing(seen.revision().substring(OURS.length()), seen.claim());
    }
}
