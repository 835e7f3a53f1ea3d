package dev.understudy.fence;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The settings by which Spark finds the fence, and whether they do so in the session that writes.
 *
 * <p>Spark reads them late and from many places (spark-defaults.conf, builders, {@code
 * spark.conf.set}, {@code SET}). They are put into a context's configuration when all of those are
 * known, and checked in the session before it writes.
 */
public final class FenceSettings {
  static final String MANAGER = "spark.sql.streaming.checkpointFileManagerClass";
  static final String STREAMING = "spark.sql.streaming.commitProtocolClass";
  static final String BATCH = "spark.sql.sources.commitProtocolClass";

  static final String OUR_MANAGER = FencedCheckpointFileManager.class.getName();
  private static final String OUR_STREAMING = FencedManifestProtocol.class.getName();
  private static final String OUR_BATCH = FencedCommitProtocol.class.getName();

  private FenceSettings() {}

  /**
   * Puts the fence into the configuration of a context that is about to be made. A commit protocol
   * for batches that is named there is wrapped. Returns what stands in the way as {@code
   * key=value}, or nothing.
   */
  public static String install(SparkConf conf) {
    conf.setIfMissing(MANAGER, OUR_MANAGER);
    conf.setIfMissing(STREAMING, OUR_STREAMING);
    String batch = conf.get(BATCH, OUR_BATCH);
    if (!batch.equals(OUR_BATCH)) {
      conf.set(FencedCommitProtocol.WRAPPED, batch);
    }
    conf.set(BATCH, OUR_BATCH);
    return foreign(conf.get(MANAGER), conf.get(STREAMING), OUR_BATCH);
  }

  /**
   * Asks a session. As {@link #install}, but a setting that is not there is not ours: {@code
   * key=null}.
   */
  public static String enforce(SparkSession session) {
    SQLConf conf = session.sessionState().conf();
    String batch = conf.getConfString(BATCH, null);
    if (batch != null && !batch.equals(OUR_BATCH)) {
      conf.setConfString(FencedCommitProtocol.WRAPPED, batch);
      conf.setConfString(BATCH, OUR_BATCH);
      batch = OUR_BATCH;
    }
    return foreign(conf.getConfString(MANAGER, null), conf.getConfString(STREAMING, null), batch);
  }

  private static String foreign(String manager, String streaming, String batch) {
    if (!OUR_MANAGER.equals(manager)) {
      return MANAGER + "=" + manager;
    }
    if (!OUR_STREAMING.equals(streaming)) {
      return STREAMING + "=" + streaming;
    }
    return OUR_BATCH.equals(batch) ? "" : BATCH + "=" + batch;
  }
}
