package dev.understudy.fence;

import java.io.IOException;

/**
 * The one session of this JVM. Static, because Spark and Hadoop make their managers and protocols
 * by reflection, with arguments of their choice: there is no other way to hand them a session.
 */
final class AttachedSession {
  private static final long DEFAULT_WRITE_TIMEOUT_MILLIS = 4_000;

  /** For executors, which have no session. */
  private static final ObjectStoreClients UNATTACHED =
      new ObjectStoreClients(DEFAULT_WRITE_TIMEOUT_MILLIS, false);

  private static volatile FenceSession session;

  private AttachedSession() {}

  /** See {@link Fence#attach}. */
  static synchronized void attach(FenceSession.Settings settings) throws IOException {
    if (session == null) {
      FenceSession opened = FenceSession.open(settings);
      session = opened;
      opened.startHalting();
    } else if (!session.settings().equals(settings)) {
      throw new IllegalStateException(
          "already attached with other arguments: " + session.settings());
    }
  }

  /** Returns the session, or null before {@link #attach}. */
  static FenceSession orNull() {
    return session;
  }

  /**
   * Returns the session.
   *
   * @throws LeadershipLostException if there is none: on a driver, no gate means refuse
   */
  static FenceSession require(String op, String path) {
    FenceSession attached = session;
    if (attached == null) {
      throw new LeadershipLostException(
          op + " of " + path + " refused: no gate is attached to this driver");
    }
    return attached;
  }

  static ObjectStoreClients clients() {
    FenceSession attached = session;
    return attached == null ? UNATTACHED : attached.clients();
  }
}
