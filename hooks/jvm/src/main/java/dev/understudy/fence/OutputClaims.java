package dev.understudy.fence;

import java.io.IOException;

/**
 * The claim of one job in a directory that its batches write to: {@code
 * _understudy/outputs/<cluster>/<job>}. It fences the job from its own past and from no other job,
 * so that several jobs may append to one table.
 *
 * <p>A streaming file sink claims the whole directory, in {@code _understudy/claim}, because its
 * log has one writer. What stands there decides where the claim of a batch is:
 *
 * <ul>
 *   <li>a claim of this very job is used as it is: an older release made it before this layout, and
 *       may be frozen under it;
 *   <li>another job's claim refuses us where a streaming sink keeps its log;
 *   <li>otherwise it is an older release's claim of that job's batches, and does not concern us.
 * </ul>
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
  private final Identity identity;
  private final Streams streams;

  /**
   * The claim of the whole directory does not concern us. Looked up once where that costs requests.
   */
  private volatile boolean leftAlone;

  OutputClaims(
      ClaimStore whole, ClaimStore ours, boolean local, Identity identity, Streams streams) {
    this.local = local;
    this.whole = whole;
    this.ours = ours;
    this.identity = identity;
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
    return (claim.cluster().equals(identity.cluster()) && claim.job().equals(identity.job()))
        || streams.logged();
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
    boolean inOurs = seen.nothing() || isOurs(seen);
    return inOurs ? ours.replace(untagged(seen), claim) : whole.replace(seen, claim);
  }

  /**
   * On a local disk, where a look costs little, also checks the claim of the whole directory: after
   * a rollback a replica of an older release leads, and we may have been frozen.
   */
  @Override
  public boolean stands(Standing seen) throws IOException {
    if (!isOurs(seen)) {
      return whole.stands(seen);
    }
    return ours.stands(untagged(seen)) && !(local && wholeIsOurPlace(whole.read()));
  }

  /** The revision tells in which of the two places a claim stands. */
  private static boolean isOurs(Standing seen) {
    return seen.revision().startsWith(OURS);
  }

  private static Standing untagged(Standing seen) {
    return seen.nothing()
        ? seen
        : new Standing(seen.revision().substring(OURS.length()), seen.claim());
  }
}
