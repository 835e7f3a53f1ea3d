package dev.understudy.fence;

import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The permission of a commit protocol to change the directory that it writes to.
 *
 * @param session null in an executor, which asks for no permission
 */
record SinkTicket(FenceSession session, ClaimedDirectory root, String path) {
  private static final SinkTicket OF_EXECUTOR = new SinkTicket(null, null, "");

  /** Waits until a batch writer may do {@code op} to {@code output}. */
  static SinkTicket ofBatch(String output, Configuration conf, String op) {
    return Sneaky.call(
        () -> {
          if (!SparkRole.onDriver()) {
            return OF_EXECUTOR;
          }
          Path path = new Path(output);
          FileSystem files = path.getFileSystem(conf);
          FenceSession session = AttachedSession.require("write", path.toString());
          ClaimedDirectory root = session.outputOf(files, path, conf);
          SinkTicket ticket = new SinkTicket(session, root, ClaimRegistry.key(files, path));
          session.admit(root, op, ticket.path, true);
          return ticket;
        });
  }

  /**
   * Waits until a streaming file sink may do {@code op} to {@code output}.
   *
   * @param readRemoteClaim whether to read the claim also where that is a request to an object
   *     store: once per file is enough, because the gate notices a freeze since
   */
  static void ofStream(String output, Configuration conf, String op, boolean readRemoteClaim) {
    if (!SparkRole.onDriver()) {
      return;
    }
    Sneaky.run(
        () -> {
          Path path = new Path(output);
          FileSystem files = path.getFileSystem(conf);
          FenceSession session = AttachedSession.require("create", path.toString());
          ClaimedDirectory root = session.rootOf(files, path, conf, true);
          boolean readClaim = readRemoteClaim || !root.remote();
          session.admit(root, op, ClaimRegistry.key(files, path), readClaim);
        });
  }

  /**
   * Waits until the same writer may go on with {@code op}. The claim is not read again where that
   * is a request: the gate notices a freeze since.
   */
  void again(String op) {
    if (session != null) {
      Sneaky.run(() -> session.admit(root, op, path, !root.remote()));
    }
  }

  /**
   * Moves {@code doomed} to where the next claim deletes it, so that what its deletion finds is
   * ours to delete however long that takes. Returns where it is now: in an object store, and
   * outside of the claimed directory, where it was.
   */
  Path takenAway(FileSystem files, Path doomed) {
    if (session == null || !root.stages()) {
      return doomed;
    }
    return Sneaky.call(() -> Staging.take(root.key, files, doomed));
  }

  /** That of the write which was let through; none on an executor. */
  OptionalLong token() {
    return session == null ? OptionalLong.empty() : OptionalLong.of(root.admittedToken());
  }

  void landed(String op) {
    if (session != null) {
      session.landed(root, op, path);
    }
  }
}
