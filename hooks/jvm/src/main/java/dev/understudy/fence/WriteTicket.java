package dev.understudy.fence;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The permission to change one file of a checkpoint, asked for when the file is opened and again
 * before it is published; and what follows for the batch in flight.
 *
 * @param session null in an executor, which asks for no permission
 * @param beginsBatch the batch whose offsets the file holds, or {@link BatchInFlight#NONE}
 * @param endsBatch the batch whose commit the file is, or {@link BatchInFlight#NONE}
 */
record WriteTicket(
    FenceSession session, ClaimedDirectory root, String path, long beginsBatch, long endsBatch) {

  /** Waits until the file may be opened for writing. */
  static WriteTicket open(FileSystem files, Path target, Configuration conf) throws IOException {
    String log = target.getParent().getName();
    long batch = BatchInFlight.number(target.getName());
    WriteTicket ticket =
        of(
            files,
            target,
            conf,
            log.equals(CommittedBatches.OFFSETS) ? batch : BatchInFlight.NONE,
            log.equals(CommittedBatches.COMMITS) ? batch : BatchInFlight.NONE);
    ticket.beforeOpen();
    return ticket;
  }

  /** Waits for nothing: {@link #beforeDelete} does. */
  static WriteTicket toDelete(FileSystem files, Path target, Configuration conf)
      throws IOException {
    return of(files, target, conf, BatchInFlight.NONE, BatchInFlight.NONE);
  }

  private static WriteTicket of(
      FileSystem files, Path target, Configuration conf, long beginsBatch, long endsBatch)
      throws IOException {
    if (!SparkRole.onDriver()) {
      String path = target.toString();
      return new WriteTicket(null, null, path, BatchInFlight.NONE, BatchInFlight.NONE);
    }
    FenceSession session = AttachedSession.require("create", target.toString());
    ClaimedDirectory root = session.rootOf(files, target, conf, false);
    return new WriteTicket(session, root, ClaimRegistry.key(files, target), beginsBatch, endsBatch);
  }

  private void beforeOpen() throws IOException {
    if (session == null) {
      return;
    }
    // in an object store nothing exists before publish, and the claim costs a request: it is read
    // there
    boolean readClaim = !root.remote();
    if (beginsBatch == BatchInFlight.NONE) {
      session.admit(root, "create", path, readClaim);
    } else {
      session.admitBatch(root, beginsBatch, path, readClaim);
    }
  }

  /**
   * The directory in which a file on a local disk lies until it is published {@code beside}: where
   * the next claim deletes it. An executor's lies there, as a driver that claims a directory again
   * must not delete its own executors' files.
   */
  java.nio.file.Path unpublished(java.nio.file.Path beside) {
    return session != null && root.stages() ? Staging.directory(root.key) : beside;
  }

  void beforePublish() throws IOException {
    if (session != null) {
      session.admit(root, "publish", path, true);
    }
  }

  void published() {
    if (session == null) {
      return;
    }
    session.landed(root, "publish", path);
    if (endsBatch != BatchInFlight.NONE) {
      session.committed(root, endsBatch);
    }
  }

  void notPublished(WriteOutcome outcome, String reason) {
    if (session == null) {
      return;
    }
    session.record(root, "publish", path, outcome, reason);
    if (beginsBatch != BatchInFlight.NONE || endsBatch != BatchInFlight.NONE) {
      // what stands there decides: a batch whose offsets another writer has logged runs without its
      // offsets being written again
      root.inFlight.unclear();
    }
  }

  /** The file will not be published, and nothing was sent. */
  void abandoned() {
    if (session != null && beginsBatch != BatchInFlight.NONE) {
      session.batchEnded(root, beginsBatch);
    }
  }

  void beforeDelete() throws IOException {
    if (session != null) {
      session.admit(root, "delete", path, true);
    }
  }

  void deleted() {
    if (session != null) {
      session.landed(root, "delete", path);
    }
  }
}
