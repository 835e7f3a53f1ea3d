package dev.understudy.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Spark's way into its checkpoints, fenced: {@code spark.sql.streaming.checkpointFileManagerClass}.
 *
 * <p>Gate and claim are asked when a file is opened for writing and again just before it is published; log entries are
 * published exclusively, by link(2) on local disks and by one conditional PUT elsewhere. Deleting is writing: a stale
 * leader's purge is refused too. Making an empty directory is not. Reading is free. Executors hold no lease and pass.
 *
 * <p>Not guaranteed: that a PUT sent before the gate closed does not land after. It lands in an empty slot or nowhere, and
 * the rightful leader that meets it sees Spark's own FileAlreadyExists.
 */
public final class FencedCheckpointFileManager implements CheckpointFileManager {
    private static final long NO_BATCH = -1;

    private final Path path;
    private final Configuration conf;
    private final FileSystem files;
    /** Null on local disks. */
    private final CachingCheckpointFileSystem reads;

    private final boolean local;

    /** The constructor that Spark calls. */
    public FencedCheckpointFileManager(Path path, Configuration conf) throws IOException {
        this.path = path;
        this.conf = conf;
        this.files = path.getFileSystem(conf);
        this.local = LocalFiles.isLocal(files);
        this.reads = local ? null : new CachingCheckpointFileSystem(ObjectStore.reader(path, conf), true);
        if (!local && !ObjectStore.isConditional(files, path)) {
            throw new UnsupportedOperationException(path + ": no exclusive create on " + files.getScheme()
                    + "://. Keep checkpoints on a local disk or on s3a:// (Hadoop 3.5)");
        }
    }

    @Override
    public CancellableFSDataOutputStream createAtomic(Path target, boolean overwriteIfPossible) {
        try {
            Ticket ticket = Ticket.open(this, target);
            try {
                return local
                        ? new LocalStream(ticket, LocalFiles.local(files, target), overwriteIfPossible)
                        : new ObjectStream(ticket, ObjectStore.writer(target, conf), target, overwriteIfPossible);
            } catch (IOException | RuntimeException e) {
                ticket.abandoned();
                throw e;
            }
        } catch (IOException e) {
            throw Sneaky.rethrow(e);
        }
    }

    @Override
    public FSDataInputStream open(Path target) {
        try {
            return local ? files.open(target) : reads.open(target);
        } catch (IOException e) {
            throw Sneaky.rethrow(e);
        }
    }

    @Override
    public FileStatus[] list(Path target, PathFilter filter) {
        try {
            return local ? LocalFiles.list(files, target, filter) : reads.listStatus(target, filter);
        } catch (IOException e) {
            throw Sneaky.rethrow(e);
        }
    }

    @Override
    public void mkdirs(Path target) {
        try {
            if (local) {
                LocalFiles.mkdirs(LocalFiles.local(files, target));
            } else {
                files.mkdirs(target);
            }
        } catch (IOException e) {
            throw Sneaky.rethrow(e);
        }
    }

    @Override
    public boolean exists(Path target) {
        try {
            if (local) {
                return Files.exists(LocalFiles.local(files, target));
            }
            return target.equals(path) ? reads.directoryExists(target) : reads.exists(target);
        } catch (IOException e) {
            throw Sneaky.rethrow(e);
        }
    }

    @Override
    public void delete(Path target) {
        try {
            ClaimedDirectory root = Fence.onDriver() ? Fence.rootOf(files, target, conf, false) : null;
            String name = ClaimRegistry.key(files, target);
            Retries retries = Retries.ofRepeatable(); // what is gone is gone twice
            boolean deleted = false;
            while (!deleted) {
                retries.uncounted(() -> root != null && Fence.admit(root, "delete", name, true));
                deleted = local ? deleteFile(target) : deleteObject(target, retries);
            }
            if (root != null) {
                Fence.landed(root, "delete", name);
            }
        } catch (IOException e) {
            throw Sneaky.rethrow(e);
        }
    }

    private boolean deleteFile(Path target) throws IOException {
        LocalFiles.delete(LocalFiles.local(files, target));
        return true;
    }

    /** False if it was not done, and may be tried again. */
    private boolean deleteObject(Path target, Retries retries) throws IOException {
        try {
            ObjectStore.writer(target, conf).delete(target, true);
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

    @Override
    public boolean isLocal() {
        return local;
    }

    @Override
    public Path createCheckpointDirectory() {
        mkdirs(path);
        return files.makeQualified(path);
    }

    /** One write's permission: asked for at open and at publish, and what follows from it for the batch in flight. */
    private record Ticket(ClaimedDirectory root, String path, long beginsBatch, long endsBatch) {
        static Ticket open(FencedCheckpointFileManager manager, Path target) throws IOException {
            if (!Fence.onDriver()) {
                return new Ticket(null, target.toString(), NO_BATCH, NO_BATCH);
            }
            ClaimedDirectory root = Fence.rootOf(manager.files, target, manager.conf, false);
            String log = target.getParent().getName();
            long batch = ClaimedDirectory.number(target.getName());
            Ticket ticket = new Ticket(
                    root,
                    ClaimRegistry.key(manager.files, target),
                    log.equals("offsets") ? batch : NO_BATCH,
                    log.equals("commits") ? batch : NO_BATCH);
            // in an object store nothing exists before publish, and the claim costs a request: it is read there
            boolean readClaim = !root.remote();
            if (ticket.beginsBatch != NO_BATCH) {
                Fence.admitBatch(root, batch, ticket.path, readClaim);
            } else {
                Fence.admit(root, "create", ticket.path, readClaim);
            }
            return ticket;
        }

        boolean beforePublish() throws IOException {
            return root == null || Fence.admit(root, "publish", path, true);
        }

        void published() {
            if (root != null) {
                Fence.landed(root, "publish", path);
                if (endsBatch != NO_BATCH) {
                    Fence.batchEnded(root, endsBatch);
                }
            }
        }

        void notPublished(String outcome, String reason) {
            if (root != null) {
                Fence.say(root, "publish", path, outcome, reason);
                if (beginsBatch != NO_BATCH || endsBatch != NO_BATCH) {
                    // what stands there decides: a batch whose offsets are somebody's runs without its offsets being written again
                    root.inFlight.unclear();
                }
            }
        }

        /** Nothing was sent. */
        void abandoned() {
            if (root != null && beginsBatch != NO_BATCH) {
                Fence.batchEnded(root, beginsBatch);
            }
        }
    }

    private static final class LocalStream extends CancellableFSDataOutputStream {
        private final Ticket ticket;
        private final java.nio.file.Path target;
        private final java.nio.file.Path temporary;
        private final boolean overwrite;
        private boolean done;

        LocalStream(Ticket ticket, java.nio.file.Path target, boolean overwrite) throws IOException {
            this(ticket, target, target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp"),
                    overwrite);
        }

        private LocalStream(
                Ticket ticket, java.nio.file.Path target, java.nio.file.Path temporary, boolean overwrite)
                throws IOException {
            super(LocalFiles.create(temporary));
            this.ticket = ticket;
            this.target = target;
            this.temporary = temporary;
            this.overwrite = overwrite;
        }

        @Override
        public synchronized void close() throws IOException {
            if (done) {
                return;
            }
            done = true;
            boolean sent = false;
            boolean landed = false;
            try {
                super.close();
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
                ticket.notPublished(FenceLog.REFUSED, "exists");
                throw e;
            } catch (IOException e) {
                if (sent) {
                    ticket.notPublished(FenceLog.UNKNOWN, e.getClass().getSimpleName());
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
        public synchronized void cancel() {
            if (done) {
                return;
            }
            done = true;
            ticket.abandoned();
            try {
                super.close();
                Files.deleteIfExists(temporary);
            } catch (IOException e) {
                return; // a leftover with a name that nobody reads
            }
        }
    }

    private final class ObjectStream extends CancellableFSDataOutputStream {
        private final Ticket ticket;
        private final FileSystem writer;
        private final Path target;
        private final boolean overwrite;
        private final Spool spool;
        private final String nonce = UUID.randomUUID().toString();
        private boolean done;

        ObjectStream(Ticket ticket, FileSystem writer, Path target, boolean overwrite) {
            this(ticket, writer, target, overwrite, new Spool());
        }

        private ObjectStream(Ticket ticket, FileSystem writer, Path target, boolean overwrite, Spool spool) {
            super((OutputStream) spool);
            this.ticket = ticket;
            this.writer = writer;
            this.target = target;
            this.overwrite = overwrite;
            this.spool = spool;
        }

        @Override
        public synchronized void close() throws IOException {
            if (done) {
                return;
            }
            done = true;
            boolean sent = false;
            try {
                Retries retries = new Retries();
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

        /** False if it was not done, and may be tried again. */
        private boolean attempt(Retries retries) throws IOException {
            FSDataOutputStream out =
                    ObjectStore.create(writer, target, overwrite ? null : ObjectStore.CREATE_ONLY, "true", nonce);
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
         * Whether a write has landed although it failed; throws if that cannot be known, or if it was refused. After a lost answer
         * one look decides: another attempt could land after the gate. Without a look even "it exists" decides nothing, for what
         * exists may be an earlier attempt of this very write, the client's own included: a sink would delete the files it names.
         */
        private boolean landedAfterAll(IOException failure, Retries retries) throws IOException {
            boolean looked = false;
            if (Failure.of(failure) != Failure.NOT_DONE) {
                try {
                    if (ObjectStore.wroteIt(writer, target, nonce)) {
                        return true;
                    }
                    looked = true;
                } catch (IOException e) {
                    failure.addSuppressed(e);
                }
            }
            if (looked && ObjectStore.isConflict(failure)) {
                ticket.notPublished(FenceLog.REFUSED, "exists");
                FileAlreadyExistsException conflict = new FileAlreadyExistsException(target + " exists already");
                conflict.initCause(failure);
                throw conflict;
            }
            try {
                retries.pause(failure);
                return false;
            } catch (IOException e) {
                ticket.notPublished(FenceLog.UNKNOWN, failure.getClass().getSimpleName());
                throw e;
            }
        }

        @Override
        public synchronized void cancel() {
            if (done) {
                return;
            }
            done = true;
            ticket.abandoned();
            try {
                spool.close();
            } catch (IOException e) {
                return; // a file without a name, gone with the process
            }
        }
    }
}
