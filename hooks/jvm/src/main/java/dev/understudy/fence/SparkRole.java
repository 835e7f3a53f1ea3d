package dev.understudy.fence;

import org.apache.spark.SparkEnv;

/** Which part this JVM has in its Spark application. */
public final class SparkRole {
  private SparkRole() {}

  /**
   * Whether this JVM is the driver. Executors hold no lease: the driver publishes what they write,
   * or ignores it.
   */
  public static boolean onDriver() {
    SparkEnv env = SparkEnv.get();
    return env == null || env.executorId().equals("driver");
  }
}
