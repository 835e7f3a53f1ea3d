package dev.understudy.fence;

import java.io.IOException;

/** A call that may fail with an {@link IOException}. */
@FunctionalInterface
public interface IoCall<T> {
  T call() throws IOException;
}
