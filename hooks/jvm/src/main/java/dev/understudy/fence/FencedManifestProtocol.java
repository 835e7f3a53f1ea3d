package dev.understudy.fence;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol;

/**
 * The streaming file sink's data files, fenced: {@code spark.sql.streaming.commitProtocolClass}.
 *
 * <p>Spark's own protocol writes straight to the final name, and only the sink's log ({@code _spark_metadata}, fenced as part
 * of the checkpoints) says that the file counts. A task of a stale leader would leave a file that Spark ignores and every
 * other reader of the directory counts twice. Here a task asks before it opens a file and again when it is done: refused,
 * it fails, and Spark deletes the files of that one attempt, whose names nobody else has.
 *
 * <p>Not guaranteed: that no such file is ever seen. A task frozen between the two questions has one half written, until it is
 * thawed (and deletes it) or killed (and it stays). Nor anything on executors, which hold no lease.
 */
public final class FencedManifestProtocol extends ManifestFileCommitProtocol {
    private static final long serialVersionUID = 1L;

    private final String outputPath;

    /** The constructor that Spark calls. */
    public FencedManifestProtocol(String jobId, String path) {
        super(jobId, path);
        this.outputPath = path;
    }

    @Override
    public String newTaskTempFile(TaskAttemptContext context, scala.Option<String> directory, FileNameSpec name) {
        admit("newTaskFile", context.getConfiguration(), true);
        return super.newTaskTempFile(context, directory, name);
    }

    @Override
    public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext context) {
        admit("commitTask", context.getConfiguration(), false);
        return super.commitTask(context);
    }

    /** Reading the claim is a request to an object store: once per file is enough, the gate knows of a freeze since. */
    private void admit(String op, Configuration conf, boolean readRemoteClaim) {
        if (!Fence.onDriver()) {
            return;
        }
        try {
            Path path = new Path(outputPath);
            FileSystem files = path.getFileSystem(conf);
            Root root = Fence.rootOf(files, path, conf, true);
            Fence.admit(root, op, Roots.key(files, path), readRemoteClaim || !root.remote());
        } catch (IOException e) {
            throw Sneaky.rethrow(e);
        }
    }
}
