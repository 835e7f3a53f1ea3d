package dev.understudy.fence;

import java.io.IOException;

/** One root's claim document, with compare-and-set. Implementations decide nothing: see {@link Claims}. */
interface ClaimStore {
    /**
     * What stands now. {@code revision} is empty when nothing does; {@code claim} is null then, and also when what stands
     * cannot be understood.
     */
    record Standing(String revision, Claim claim) {
        static final Standing NOTHING = new Standing("", null);

        boolean nothing() {
            return revision.isEmpty();
        }
    }

    /**
     * Runs the code of a claim once, writing only what nobody reads and what is gone afterwards. What stood then, where a first
     * claim may well begin with {@link #replace}; null where reading costs nothing.
     */
    default Standing prepare() throws IOException {
        read();
        return null;
    }

    /** Throws {@link UnfitStoreException} where a compare-and-set is none. Costs nothing once it is known. */
    default void requireConditions() throws IOException {}

    /** Never from a cache. */
    Standing read() throws IOException;

    /**
     * Replaces {@code seen}. Returns false on a conflict; an exception is an unknown outcome, which only another
     * {@link #read} settles. True is no proof either: the caller reads back.
     */
    boolean replace(Standing seen, Claim claim) throws IOException;

    /** Whether {@code ours} still is the claim, as cheaply as that can be known. */
    boolean stands(Standing ours) throws IOException;
}
