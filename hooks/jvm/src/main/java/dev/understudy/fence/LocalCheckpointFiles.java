package dev.understudy.fence;

import java.io.IOException;
import java.nio.file.Files;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/** A checkpoint on a local disk: files are published by link(2), or by rename(2) over another. */
final class LocalCheckpointFiles implements CheckpointFiles {
  private final FileSystem files;

  LocalCheckpointFiles(FileSystem files) {
    this.files = files;
  }

  @Override
  public CancellableFSDataOutputStream create(WriteTicket ticket, Path target, boolean overwrite)
      throws IOException {
    java.nio.file.Path local = LocalFiles.local(files, target);
    LocalFiles.mkdirs(local.getParent());
    String name = "." + local.getFileName() + "." + UUID.randomUUID() + ".tmp";
    java.nio.file.Path temporary = ticket.unpublished(local.getParent()).resolve(name);
    return new LocalStream(ticket, local, temporary, overwrite);
  }

  @Override
  public FSDataInputStream open(Path target) throws IOException {
    return files.open(target);
  }

  @Override
  public FileStatus[] list(Path target, PathFilter filter) throws IOException {
    return LocalFiles.list(files, target, filter);
  }

  @Override
  public void mkdirs(Path target) throws IOException {
    LocalFiles.mkdirs(LocalFiles.local(files, target));
  }

  @Override
  public boolean exists(Path target) {
    return Files.exists(LocalFiles.local(files, target));
  }

  @Override
  public boolean delete(Path target, Retries retries) throws IOException {
    LocalFiles.delete(LocalFiles.local(files, target));
    return true;
  }

  private static final class LocalStream extends TicketStream {
    private final java.nio.file.Path target;
    private final java.nio.file.Path temporary;
    private final boolean overwrite;

    LocalStream(
        WriteTicket ticket,
        java.nio.file.Path target,
        java.nio.file.Path temporary,
        boolean overwrite)
        throws IOException {
      super(ticket, LocalFiles.create(temporary));
      this.target = target;
      this.temporary = temporary;
      this.overwrite = overwrite;
    }

    @Override
    void publish() throws IOException {
      boolean sent = false;
      boolean landed = false;
      try {
        closeContent();
        ticket.beforePublish();
        sent = true;
        if (overwrite) {
          LocalFiles.publishOver(temporary, target);
        } else {
          LocalFiles.publishNew(temporary, target);
        }
        landed = true;
        ticket.published();
      } catch (FileAlreadyExistsException e) {
        ticket.notPublished(WriteOutcome.REFUSED, "exists");
        throw e;
      } catch (IOException e) {
        if (sent) {
          ticket.notPublished(WriteOutcome.UNKNOWN, e.getClass().getSimpleName());
        }
        throw e;
      } finally {
        if (!sent) {
          ticket.abandoned();
        }
        if (!landed) {
          Files.deleteIfExists(temporary);
        }
      }
    }

    @Override
    void discard() throws IOException {
      closeContent();
      Files.deleteIfExists(temporary);
    }
  }
}
