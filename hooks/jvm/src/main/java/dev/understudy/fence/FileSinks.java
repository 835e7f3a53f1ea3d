package dev.understudy.fence;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2;

/** Which formats Spark streams into with a sink that keeps a log in the directory it writes to. */
public final class FileSinks {
  private FileSinks() {}

  /**
   * Whether {@code format}, a short name or a class, is one of files. False for one that Spark does
   * not know, of which its own error tells.
   */
  public static boolean has(SparkSession session, String format) {
    try {
      Class<?> source = DataSource.lookupDataSource(format, session.sessionState().conf());
      return FileFormat.class.isAssignableFrom(source)
          || FileDataSourceV2.class.isAssignableFrom(source);
    } catch (Exception e) { // Spark's own, checked ones among them, which Scala does not declare
      return false;
    }
  }
}
