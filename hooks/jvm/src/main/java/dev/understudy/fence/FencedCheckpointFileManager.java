package dev.understudy.fence;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Spark's way into its checkpoints, fenced: {@code spark.sql.streaming.checkpointFileManagerClass}.
 *
 * <p>Gate and claim are asked when a file is opened for writing and again just before it is
 * published. Log entries are published exclusively, by link(2) on local disks and by one
 * conditional PUT elsewhere. Deleting is writing: a stale leader's purge is refused too. Making an
 * empty directory is not. Reading is free. Executors hold no lease and pass.
 *
 * <p>Not guaranteed: that a PUT sent before the gate closed does not land after. It lands in an
 * empty slot or, of a state file, over what its writer has seen there, or nowhere; the rightful
 * leader that meets a log entry sees Spark's own FileAlreadyExists, and writes state over it.
 */
public final class FencedCheckpointFileManager implements CheckpointFileManager {
  private final Path path;
  private final Configuration conf;
  private final FileSystem files;
  private final CheckpointFiles checkpoint;

  /** The constructor that Spark calls. */
  public FencedCheckpointFileManager(Path path, Configuration conf) throws IOException {
    this.path = path;
    this.conf = conf;
    this.files = path.getFileSystem(conf);
    this.checkpoint =
        LocalFiles.isLocal(files)
            ? new LocalCheckpointFiles(files)
            : new ObjectCheckpointFiles(files, path, conf);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path target, boolean overwriteIfPossible) {
    return Sneaky.call(
        () -> {
          WriteTicket ticket = WriteTicket.open(files, target, conf);
          try {
            return checkpoint.create(ticket, target, overwriteIfPossible);
          } catch (IOException | RuntimeException e) {
            ticket.abandoned();
            throw e;
          }
        });
  }

  @Override
  public FSDataInputStream open(Path target) {
    return read(target, () -> checkpoint.open(target));
  }

  @Override
  public FileStatus[] list(Path target, PathFilter filter) {
    return read(
        target,
        () -> {
          FileStatus[] found = checkpoint.list(target, filter);
          FenceSession session = SparkRole.onDriver() ? AttachedSession.orNull() : null;
          if (session != null) {
            session.listed(files, target, found);
          }
          return found;
        });
  }

  @Override
  public void mkdirs(Path target) {
    Sneaky.run(() -> checkpoint.mkdirs(target));
  }

  @Override
  public boolean exists(Path target) {
    return read(target, () -> checkpoint.exists(target));
  }

  private static <T> T read(Path target, IoCall<T> call) {
    return Sneaky.call(
        () -> {
          StateOnItsWay.await(target);
          return call.call();
        });
  }

  @Override
  public void delete(Path target) {
    Sneaky.run(
        () -> {
          WriteTicket ticket = WriteTicket.toDelete(files, target, conf);
          Retries retries = Retries.ofRepeatable(); // what is gone is gone twice
          do {
            retries.uncounted(ticket::beforeDelete);
          } while (!checkpoint.delete(target, retries));
          ticket.deleted();
        });
  }

  @Override
  public boolean isLocal() {
    return checkpoint instanceof LocalCheckpointFiles;
  }

  @Override
  public Path createCheckpointDirectory() {
    mkdirs(path);
    return files.makeQualified(path);
  }
}
