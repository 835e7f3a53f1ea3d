package dev.understudy.fence;

/**
 * An object store on which nothing can be fenced. Unchecked, and no {@link java.io.IOException}:
 * trying again changes nothing.
 */
public final class UnfitStoreException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String bucket;

  public UnfitStoreException(String bucket, String ignored) {
    super(
        "the server does not honour "
            + ignored
            + " of a PUT, so two writers of one log would both win");
    this.bucket = bucket;
  }

  public String bucket() {
    return bucket;
  }
}
