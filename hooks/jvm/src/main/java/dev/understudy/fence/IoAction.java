package dev.understudy.fence;

import java.io.IOException;

/** An action that may fail with an {@link IOException}. */
@FunctionalInterface
public interface IoAction {
  void run() throws IOException;
}
