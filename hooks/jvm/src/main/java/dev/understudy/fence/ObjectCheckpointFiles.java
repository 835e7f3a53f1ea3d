package dev.understudy.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/**
 * A checkpoint in an object store: files are published by one conditional PUT. One that may be
 * overwritten, a state file, replaces what was seen there before the claim was looked at, and
 * nothing else: not what a successor has put there since.
 */
final class ObjectCheckpointFiles implements CheckpointFiles {
  /** Others that put the same object between two attempts: the tasks of one partition, at most. */
  private static final int MOST_OVERWRITES = 4;

  private final Path root;
  private final Configuration conf;
  private final FileSystem files;
  private final CachingCheckpointFileSystem reads;

  ObjectCheckpointFiles(FileSystem files, Path root, Configuration conf) throws IOException {
    this.root = root;
    this.conf = conf;
    this.files = files;
    this.reads = new CachingCheckpointFileSystem(ObjectStoreClients.reader(root, conf), true);
    if (!ObjectStore.isConditional(files, root)) {
      throw new UnsupportedOperationException(
          root
              + ": no exclusive create on "
              + files.getScheme()
              + "://. Keep checkpoints on a local disk or on s3a:// (Hadoop 3.5)");
    }
  }

  @Override
  public CancellableFSDataOutputStream create(WriteTicket ticket, Path target, boolean overwrite)
      throws IOException {
    return new ObjectStream(ticket, writer(target), target, overwrite, new Spool());
  }

  @Override
  public FSDataInputStream open(Path target) throws IOException {
    return reads.open(target);
  }

  @Override
  public FileStatus[] list(Path target, PathFilter filter) throws IOException {
    return reads.listStatus(target, filter);
  }

  @Override
  public void mkdirs(Path target) throws IOException {
    if (!reads.knowsOf(target)) {
      files.mkdirs(target);
    }
  }

  @Override
  public boolean exists(Path target) throws IOException {
    return target.equals(root) ? reads.directoryExists(target) : reads.exists(target);
  }

  @Override
  public boolean delete(Path target, Retries retries) throws IOException {
    try {
      writer(target).delete(target, true);
      return true;
    } catch (FileNotFoundException e) {
      return true; // gone is what was wanted
    } catch (IOException e) {
      retries.pause(e);
      return false;
    } finally {
      reads.forget(target);
    }
  }

  private FileSystem writer(Path target) throws IOException {
    return AttachedSession.clients().writer(target, conf);
  }

  private final class ObjectStream extends TicketStream {
    private final FileSystem writer;
    private final Path target;
    private final boolean overwrite;
    private final Spool spool;
    private final String nonce = UUID.randomUUID().toString();

    /**
     * The ETag of what stands there, and is to be overwritten; null while nothing is known of it.
     */
    private String standing;

    private int overwritten;

    ObjectStream(
        WriteTicket ticket, FileSystem writer, Path target, boolean overwrite, Spool spool) {
      super(ticket, spool);
      this.writer = writer;
      this.target = target;
      this.overwrite = overwrite;
      this.spool = spool;
    }

    @Override
    void publish() throws IOException {
      boolean sent = false;
      try {
        Retries retries = Retries.ofWrite();
        boolean landed = false;
        while (!landed) {
          sent = false;
          retries.uncounted(ticket::beforePublish);
          sent = true;
          landed = attempt(retries);
        }
      } finally {
        reads.forget(target);
        spool.close();
        if (!sent) {
          ticket.abandoned();
        }
      }
      ticket.published();
    }

    /** Returns false if it was not done, and may be tried again. */
    private boolean attempt(Retries retries) throws IOException {
      FSDataOutputStream out =
          standing == null
              ? ObjectStore.create(writer, target, ObjectStore.CREATE_ONLY, "true", nonce)
              : ObjectStore.create(writer, target, ObjectStore.CREATE_IF_ETAG, standing, nonce);
      try {
        spool.copyTo(out);
        out.close();
        return true;
      } catch (IOException e) {
        out.abort();
        return landedAfterAll(e, retries);
      }
    }

    /**
     * Whether a write has landed although it failed. Raises {@code failure} if that is unknown, and
     * a conflict if the write was refused.
     *
     * <p>After a lost answer one look decides: another attempt could land after the gate has
     * closed. Without a look even "it exists" decides nothing, because what exists may be an
     * earlier attempt of this very write, one of the client's included; a sink would delete the
     * files that it names.
     */
    private boolean landedAfterAll(IOException failure, Retries retries) throws IOException {
      ObjectStore.Standing found = null;
      if (Failure.of(failure) != Failure.NOT_DONE) {
        try {
          found = ObjectStore.standing(writer, target);
          if (found.nonce().equals(nonce)) {
            return true;
          }
        } catch (IOException e) {
          failure.addSuppressed(e);
        }
      }
      // Some servers end the connection in place of an answer, while the file is still being sent.
      boolean refused = found != null && overwrite && !found.etag().equals(standing);
      if (refused && overwritten++ < MOST_OVERWRITES) {
        standing = found.etag(); // the claim is looked at first: it may be a successor's
        return false;
      }
      if (found != null && ObjectStore.isConflict(failure)) {
        ticket.notPublished(WriteOutcome.REFUSED, "exists");
        FileAlreadyExistsException conflict =
            new FileAlreadyExistsException(target + " exists already");
        conflict.initCause(failure);
        throw conflict;
      }
      try {
        retries.pause(failure);
        return false;
      } catch (IOException e) {
        ticket.notPublished(WriteOutcome.UNKNOWN, failure.getClass().getSimpleName());
        throw e;
      }
    }

    @Override
    void discard() throws IOException {
      spool.close();
    }
  }
}
