package dev.understudy.fence;

import java.io.IOException;

/**
 * Scala's traits declare no checked exceptions, and Spark's callers expect the bare IOException.
 */
public final class Sneaky {
  private Sneaky() {}

  /** Returns what {@code call} returns. Raises what it raises, undeclared. */
  public static <T> T call(IoCall<T> call) {
    try {
      return call.call();
    } catch (IOException e) {
      throw rethrow(e);
    }
  }

  /** As {@link #call}, for what returns nothing. */
  static void run(IoAction action) {
    try {
      action.run();
    } catch (IOException e) {
      throw rethrow(e);
    }
  }

  /** Raises {@code cause}, undeclared. */
  public static RuntimeException rethrow(Throwable cause) {
    return Sneaky.<RuntimeException>cast(cause);
  }

  @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
  private static <E extends Throwable> RuntimeException cast(Throwable cause) throws E {
    throw (E) cause;
  }
}
