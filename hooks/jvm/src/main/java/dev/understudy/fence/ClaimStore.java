package dev.understudy.fence;

import java.io.IOException;

/**
 * One root's claim document, with compare-and-set. An implementation decides nothing: see {@link
 * Claims}.
 */
interface ClaimStore {
  /**
   * What stands now: {@code revision} is empty when nothing does; {@code claim} is null then, and
   * also when what stands cannot be understood.
   */
  record Standing(String revision, Claim claim) {
    static final Standing NOTHING = new Standing("", null);

    boolean nothing() {
      return revision.isEmpty();
    }
  }

  /**
   * Runs the code of a claim once. Writes nothing that another process reads, and leaves nothing.
   * Returns what stood then, so that a first claim may begin with {@link #replace}; null where a
   * read costs nothing.
   */
  default Standing prepare() throws IOException {
    read();
    return null;
  }

  /**
   * Raises {@link UnfitStoreException} where a compare-and-set is not honoured. Costs nothing once
   * that is known.
   */
  default void requireConditions() throws IOException {}

  /** Never from a cache. */
  Standing read() throws IOException;

  /**
   * Replaces {@code seen}. Returns false on a conflict; an exception is an unknown outcome, which
   * only another {@link #read} settles. True is no proof either: the caller reads back.
   */
  boolean replace(Standing seen, Claim claim) throws IOException;

  /** Whether {@code ours} still is the claim, by the cheapest look there is. */
  boolean stands(Standing ours) throws IOException;
}
