package dev.understudy.fence;

import java.io.Serializable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Batch writes to files, fenced: {@code spark.sql.sources.commitProtocolClass}.
 *
 * <p>Gate and the output's claim are asked where a driver destroys or publishes: before old files
 * are deleted, before the job is set up, and before it is committed or aborted. Seen 5 times in 5
 * without it: a leader frozen between the Python gate and {@code
 * write.mode("overwrite").parquet(…)} deleted the new leader's files after its thaw.
 *
 * <p>The work is done by the protocol that the user has named, as S3A's for its committers, or else
 * by Spark's own.
 *
 * <p>What is overwritten is deleted one directory or file after the other, each behind a look of
 * its own. On a local disk each is first moved, by one system call, to where a successor's claim
 * deletes it.
 *
 * <p>Not guaranteed: protection from a freeze that falls between a check and the one system call
 * after it; in an object store, within the delete of one directory; with {@code
 * partitionOverwriteMode=dynamic}, within the commit, in which Spark replaces one partition after
 * the other; and, on file systems without a compare-and-set, more than the gate.
 */
public final class FencedCommitProtocol extends FileCommitProtocol implements Serializable {
  /** Names a commit protocol of the user's, which does the work. */
  static final String WRAPPED = "spark.understudy.sources.commitProtocolClass";

  private static final long serialVersionUID = 2L;
  private static final int ATTEMPT_BITS = 12;
  private static final long ATTEMPTS = (1L << ATTEMPT_BITS) - 1;

  private final FileCommitProtocol wrapped;
  private final String outputPath;

  /** Held while the job runs: see {@link ClaimRegistry}. */
  private transient SinkTicket ticket;

  /** The constructor that Spark calls. */
  public FencedCommitProtocol(String jobId, String path, boolean dynamicPartitionOverwrite) {
    String named =
        SQLConf.get().getConfString(WRAPPED, SQLHadoopMapReduceCommitProtocol.class.getName());
    this.wrapped = FileCommitProtocol.instantiate(named, jobId, path, dynamicPartitionOverwrite);
    this.outputPath = path;
  }

  @Override
  public void setupJob(JobContext context) {
    Configuration conf = context.getConfiguration();
    admit("setupJob", conf);
    ticket
        .token()
        .ifPresent(token -> conf.setInt(MRJobConfig.APPLICATION_ATTEMPT_ID, attempt(token)));
    wrapped.setupJob(context);
    ticket.landed("setupJob");
  }

  @Override
  public boolean deleteWithJob(FileSystem files, Path path, boolean recursive) {
    admit(Overwrite.OP, files.getConf());
    boolean deleted =
        Sneaky.call(
            () ->
                Overwrite.delete(
                    ticket, files, path, each -> wrapped.deleteWithJob(files, each, recursive)));
    ticket.landed(Overwrite.OP);
    return deleted;
  }

  @Override
  public void commitJob(
      JobContext context,
      scala.collection.immutable.Seq<FileCommitProtocol.TaskCommitMessage> taskCommits) {
    admit("commitJob", context.getConfiguration());
    wrapped.commitJob(context, taskCommits);
    ticket.landed("commitJob");
  }

  /**
   * Clears {@code _temporary}, which a successor's job uses too: refused for a stale leader, but
   * without a second error.
   */
  @Override
  public void abortJob(JobContext context) {
    try {
      admit("abortJob", context.getConfiguration());
    } catch (LeadershipLostException e) {
      return; // logged as refused; the job's own failure is what the caller should see
    }
    wrapped.abortJob(context);
  }

  // No reader sees the files of a task before its job is committed, which finds those of its own
  // token alone.

  @Override
  public void setupTask(TaskAttemptContext context) {
    wrapped.setupTask(context);
  }

  @Override
  @SuppressWarnings("deprecation")
  public String newTaskTempFile(
      TaskAttemptContext context, scala.Option<String> directory, String extension) {
    return wrapped.newTaskTempFile(context, directory, extension);
  }

  @Override
  public String newTaskTempFile(
      TaskAttemptContext context, scala.Option<String> directory, FileNameSpec name) {
    return wrapped.newTaskTempFile(context, directory, name);
  }

  @Override
  @SuppressWarnings("deprecation")
  public String newTaskTempFileAbsPath(
      TaskAttemptContext context, String directory, String extension) {
    return wrapped.newTaskTempFileAbsPath(context, directory, extension);
  }

  @Override
  public String newTaskTempFileAbsPath(
      TaskAttemptContext context, String directory, FileNameSpec name) {
    return wrapped.newTaskTempFileAbsPath(context, directory, name);
  }

  @Override
  public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
    return wrapped.commitTask(context);
  }

  @Override
  public void abortTask(TaskAttemptContext context) {
    wrapped.abortTask(context);
  }

  @Override
  public void onTaskCommit(FileCommitProtocol.TaskCommitMessage message) {
    wrapped.onTaskCommit(message);
  }

  /**
   * Where finished tasks lie below {@code _temporary} until their job commits. Hadoop commits all
   * that it finds there, and without this a predecessor's tasks, dead or still at work, lie in the
   * same place.
   *
   * <p>Of all tokens whose epochs are less than 2^19 apart, with attempts below 2^12, no two have
   * the same.
   */
  static int attempt(long token) {
    return (int) (((token >>> 32 << ATTEMPT_BITS) | (token & ATTEMPTS)) & Integer.MAX_VALUE);
  }

  private void admit(String op, Configuration conf) {
    ticket = SinkTicket.ofBatch(outputPath, conf, op);
  }
}
