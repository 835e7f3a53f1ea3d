package dev.understudy.rehearsal;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.SparkListenerInterface;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;
import org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryListenerBus;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The session of a rehearsal: a clone of the user's, without listeners.
 *
 * <p>The clone has its own query manager, so {@code spark.streams} of the user's session neither
 * lists the rehearsal nor wakes up when it ends. Its streaming events go to a bus without listeners
 * instead of Spark's live one: neither the user's listeners, nor those named by {@code
 * spark.sql.streaming.streamingQueryListeners}, nor the UI receive them.
 *
 * <p>Not hidden: Spark jobs and SQL executions, from {@code SparkListener}s on the context.
 */
final class RehearsalSession {
  private RehearsalSession() {}

  /** Settings of the clone that take precedence over those of the user's session. */
  private static final Map<String, String> OURS =
      Map.of(
          "fs." + Overlay.SCHEME + ".impl",
          OverlayFileSystem.class.getName(),
          // FileContext, Spark's first choice, knows no file systems by such a setting.
          "spark.sql.streaming.checkpointFileManagerClass",
          FileSystemBasedCheckpointFileManager.class.getName(),
          // On a standby these are the fence, which would wait for the gate.
          "spark.sql.streaming.commitProtocolClass",
          ManifestFileCommitProtocol.class.getName(),
          "spark.sql.sources.commitProtocolClass",
          SQLHadoopMapReduceCommitProtocol.class.getName(),
          // A file sink's log in scratch starts at batch N; compacting it would look for the ones
          // before.
          "spark.sql.streaming.fileSink.log.compactInterval",
          "1000000000",
          // By the deprecated way a driver joins the consumer group that the script names.
          "spark.sql.streaming.kafka.useDeprecatedOffsetFetching",
          "false",
          "spark.sql.streaming.metricsEnabled",
          "false",
          "spark.sql.streaming.stopTimeout",
          "60s");

  /**
   * @param captured all of the SQL configuration as it was when the script called {@code start()},
   *     or empty for what it is now
   */
  static SparkSession clone(SparkSession user, Map<String, String> captured) {
    SparkSession clone = user.cloneSession();
    SQLConf conf = clone.sessionState().conf();
    if (!captured.isEmpty()) {
      apply(conf, captured, clone.sparkContext().conf());
    }
    OURS.forEach(conf::setConfString);
    clone.listenerManager().clear();
    clone.streams();
    silence(clone);
    return clone;
  }

  /**
   * Exactly the captured settings: those set since the script called {@code start()} belong to a
   * later query.
   */
  private static void apply(SQLConf conf, Map<String, String> captured, SparkConf initial) {
    Map<String, String> now = new HashMap<>(CollectionConverters.asJava(conf.getAllConfs()));
    Map<String, String> wanted = new HashMap<>(captured);
    now.forEach(
        (key, value) -> {
          if (!wanted.containsKey(key)) {
            wanted.put(key, initial.get(key, null));
          }
        });
    wanted.forEach(
        (key, value) -> {
          if (!OURS.containsKey(key) && !Objects.equals(value, now.get(key))) {
            SessionSettings.set(conf, key, value);
          }
        });
  }

  /**
   * Takes the session's query manager off Spark's live listener bus.
   *
   * <p>Every manager adds itself there when it is made and nothing ever removes it; each start of a
   * query makes one (the query's own clone of the session), so a hundred rounds would leave a
   * hundred.
   */
  static void silence(SparkSession session) {
    if (SparkInternals.get(session.sessionState(), "streamingQueryManager") == null) {
      return; // a lazy value that does not exist yet
    }
    Object manager = session.streams();
    SparkListenerInterface bus =
        (SparkListenerInterface) SparkInternals.get(manager, "listenerBus");
    LiveListenerBus live =
        (LiveListenerBus) SparkInternals.call(session.sparkContext(), "listenerBus");
    live.removeListener(bus);
    SparkInternals.set(manager, "listenerBus", new StreamingQueryListenerBus(Option.empty()));
  }

  /**
   * The calling thread's local properties, job group and description above all, are not the
   * rehearsal's.
   */
  static void clearInherited(SparkContext context) {
    for (String key :
        List.of(
            "spark.jobGroup.id",
            "spark.job.description",
            "spark.job.interruptOnCancel",
            "spark.job.tags")) {
      context.setLocalProperty(key, null);
    }
  }

  /**
   * Whether executors in other JVMs write to scratch.
   *
   * @throws IllegalStateException if it is on a disk that they do not reach
   */
  static boolean sharesScratch(SparkContext context, Path scratch, FileSystem of) {
    if (context.isLocal()) {
      return false;
    }
    if (of instanceof LocalFileSystem && !context.master().startsWith("local-cluster")) {
      throw new IllegalStateException(
          "executors run elsewhere, and scratch is on this machine's disk ("
              + scratch
              + "). Give --scratch a place that all of them reach, for example"
              + " s3a://bucket/scratch, and let the bucket expire what is left there");
    }
    return true;
  }
}
