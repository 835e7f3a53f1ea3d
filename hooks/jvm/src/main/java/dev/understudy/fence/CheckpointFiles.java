package dev.understudy.fence;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/** The files of a checkpoint on one kind of storage. Asks for no permission, except at publish. */
interface CheckpointFiles {
  /** Opens a stream that publishes its file when it is closed, if {@code ticket} still permits. */
  CancellableFSDataOutputStream create(WriteTicket ticket, Path target, boolean overwrite)
      throws IOException;

  FSDataInputStream open(Path target) throws IOException;

  FileStatus[] list(Path target, PathFilter filter) throws IOException;

  void mkdirs(Path target) throws IOException;

  boolean exists(Path target) throws IOException;

  /**
   * Deletes recursively; a missing file is no error.
   *
   * @return false if it was not done, and may be tried again
   */
  boolean delete(Path target, Retries retries) throws IOException;
}
