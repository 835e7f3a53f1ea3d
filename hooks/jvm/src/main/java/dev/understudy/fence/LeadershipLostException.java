package dev.understudy.fence;

/**
 * This driver may not write any more: its gate was revoked, stayed closed past the park deadline,
 * or a claim of a higher token (or of another holder) stands where it wanted to write.
 *
 * <p>Unchecked, and no {@link java.io.IOException}: Spark retries or reinterprets some I/O errors,
 * and {@code FileAlreadyExistsException} in particular means something else to it.
 */
public final class LeadershipLostException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public LeadershipLostException(String message) {
    super(message);
  }

  public LeadershipLostException(String message, Throwable cause) {
    super(message, cause);
  }
}
