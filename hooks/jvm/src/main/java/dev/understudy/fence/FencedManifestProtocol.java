package dev.understudy.fence;

import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSinkLog;
import org.apache.spark.sql.execution.streaming.sinks.SinkFileStatus;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The streaming file sink's data files, fenced: {@code spark.sql.streaming.commitProtocolClass}.
 *
 * <p>Spark's own protocol writes straight to the final name, and only the sink's log ({@code
 * _spark_metadata}, fenced as part of the checkpoints) says that the file counts. A task of a stale
 * leader would leave a file that Spark ignores and every other reader of the directory counts
 * twice. Here a task asks before it opens a file and again when it is done.
 *
 * <p>On local disks it writes to {@link Staging}, and the driver publishes the files of the whole
 * batch by link(2) just before it logs them: a stale leader, frozen at any step, publishes none. In
 * an object store, where a rename is a copy, a file appears whole under its final name when it is
 * closed.
 *
 * <p>Not guaranteed: that an object store never shows a stale leader's file, which may be closed by
 * a task that was frozen between the two questions (it is refused, and deletes the file unless it
 * is killed first); and that a leader killed between publishing and logging leaves no file that
 * only Spark knows to ignore, as with Spark's own protocol.
 */
public final class FencedManifestProtocol extends ManifestFileCommitProtocol {
  private static final long serialVersionUID = 2L;

  private final String outputPath;

  /** Null until the job is set up, and in an object store. Travels with the tasks. */
  private String staging;

  private transient List<Path> written;
  private transient List<Path> pending;

  /** The constructor that Spark calls. */
  public FencedManifestProtocol(String jobId, String path) {
    super(jobId, path);
    this.outputPath = path;
  }

  @Override
  public void setupManifestOptions(FileStreamSinkLog log, long batch) {
    SinkLogStart.complete(log, batch);
    super.setupManifestOptions(log, batch);
  }

  @Override
  public void setupJob(JobContext context) {
    super.setupJob(context);
    pending = new ArrayList<>();
    boolean local = LocalFiles.isLocal(files(context.getConfiguration()));
    staging = local ? Staging.below(new Path(outputPath)).toString() : null;
  }

  @Override
  public void setupTask(TaskAttemptContext context) {
    super.setupTask(context);
    written = new ArrayList<>();
  }

  @Override
  public String newTaskTempFile(
      TaskAttemptContext context, scala.Option<String> directory, FileNameSpec name) {
    SinkTicket.ofStream(outputPath, context.getConfiguration(), "newTaskFile", true);
    String published = super.newTaskTempFile(context, directory, name);
    if (staging == null) {
      return published;
    }
    written.add(new Path(published));
    return staged(new Path(published)).toString();
  }

  @Override
  public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
    SinkTicket.ofStream(outputPath, context.getConfiguration(), "commitTask", false);
    if (staging == null) {
      return super.commitTask(context);
    }
    FileSystem files = files(context.getConfiguration());
    return Sneaky.call(
        () -> {
          List<SinkFileStatus> statuses = new ArrayList<>();
          for (Path path : written) {
            FileStatus status = files.getFileStatus(staged(path));
            status.setPath(files.makeQualified(path));
            statuses.add(SinkFileStatus.apply(status));
          }
          return new FileCommitProtocol.TaskCommitMessage(
              CollectionConverters.asScala(statuses).toSeq());
        });
  }

  @Override
  public void abortTask(TaskAttemptContext context) {
    super.abortTask(context);
    deleteStaged(context.getConfiguration(), written);
  }

  @Override
  public void onTaskCommit(FileCommitProtocol.TaskCommitMessage message) {
    super.onTaskCommit(message);
    @SuppressWarnings("unchecked")
    scala.collection.immutable.Seq<SinkFileStatus> statuses =
        (scala.collection.immutable.Seq<SinkFileStatus>) message.obj();
    CollectionConverters.asJava(statuses)
        .forEach(status -> pending.add(status.toFileStatus().getPath()));
  }

  @Override
  public void commitJob(
      JobContext context,
      scala.collection.immutable.Seq<FileCommitProtocol.TaskCommitMessage> taskCommits) {
    if (staging != null) {
      SinkTicket.ofStream(outputPath, context.getConfiguration(), "commitJob", true);
      publish(context.getConfiguration());
    }
    try {
      super.commitJob(context, taskCommits);
    } catch (IllegalStateException | ConcurrentModificationException e) {
      if (isAnothersBatch(e)) {
        deletePublished(context.getConfiguration());
      }
      throw e;
    }
  }

  /**
   * Whether the sink's log has this batch already, and not from us. Spark forgets its files then;
   * other readers count them.
   */
  private static boolean isAnothersBatch(RuntimeException failure) {
    return failure instanceof ConcurrentModificationException
        || String.valueOf(failure.getMessage()).startsWith("Race while writing batch");
  }

  private void deletePublished(Configuration conf) {
    SinkTicket.ofStream(outputPath, conf, "abortJob", true);
    FileSystem files = files(conf);
    Sneaky.run(
        () -> {
          for (Path path : pending) {
            files.delete(path, false);
          }
        });
  }

  @Override
  public void abortJob(JobContext context) {
    List<Path> unpublished = List.copyOf(pending);
    super.abortJob(context);
    deleteStaged(context.getConfiguration(), unpublished);
  }

  private void publish(Configuration conf) {
    FileSystem files = files(conf);
    Sneaky.run(
        () -> {
          for (Path path : pending) {
            java.nio.file.Path target = LocalFiles.local(files, path);
            LocalFiles.mkdirs(target.getParent());
            LocalFiles.publishNew(LocalFiles.local(files, staged(path)), target);
          }
          deleteStaged(conf, pending); // their checksums are left
        });
  }

  private void deleteStaged(Configuration conf, List<Path> paths) {
    if (staging == null) {
      return;
    }
    FileSystem files = files(conf);
    Sneaky.run(
        () -> {
          for (Path path : paths) {
            LocalFiles.delete(LocalFiles.local(files, staged(path)));
          }
        });
  }

  private Path staged(Path published) {
    return new Path(staging, published.getName());
  }

  private FileSystem files(Configuration conf) {
    return Sneaky.call(() -> new Path(outputPath).getFileSystem(conf));
  }
}
