package dev.understudy.hadoop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.SparkHadoopUtil;

/** For {@code fs.file.impl}: Hadoop's local file system, checksum files included. */
public class LocalDisk extends LocalFileSystem {
  private static final URI DISK = URI.create("file:///");
  private static final String HADOOP = "spark.hadoop.";
  private static final String OF_FILES = "fs.file.impl";
  private static final String OF_CONTEXTS = "fs.AbstractFileSystem.file.impl";
  private static final String HADOOPS = "org.apache.hadoop.fs.local.LocalFs";

  public LocalDisk() {
    super(new RawLocalDisk());
  }

  /**
   * Configures a context that is about to be made, unless the user has named another file system,
   * there or in Hadoop's own files.
   *
   * <p>Becomes the local file system that Hadoop shares, too: parts of Spark have asked for that
   * before the configuration of a context is read, or ask with another one. Who has it keeps it,
   * and can use it.
   */
  public static void configure(SparkConf context) throws IOException {
    Configuration settings = SparkHadoopUtil.get().newConfiguration(context);
    if (settings.get(OF_FILES) != null) {
      return;
    }
    Class<? extends FileSystem> stock = FileSystem.getFileSystemClass(DISK.getScheme(), settings);
    Class<? extends LocalDisk> ours = inPlaceOf(stock);
    if (ours == null) {
      return;
    }
    context.set(HADOOP + OF_FILES, ours.getName());
    if (HADOOPS.equals(settings.get(OF_CONTEXTS))) {
      context.setIfMissing(HADOOP + OF_CONTEXTS, LocalDiskContext.class.getName());
    }
    FileSystem shared = FileSystem.get(DISK, settings);
    if (shared.getClass() == stock) {
      shared.close();
      settings.setClass(OF_FILES, ours, FileSystem.class);
      FileSystem.get(DISK, settings);
    }
  }

  private static Class<? extends LocalDisk> inPlaceOf(Class<? extends FileSystem> stock) {
    if (stock == LocalFileSystem.class) {
      return LocalDisk.class;
    }
    // not named by its class: it is there with Spark's Hive
    boolean hives = stock.getName().equals("org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem");
    return hives ? BesideHive.class : null;
  }

  /** As the one that Hive registers: nothing is renamed over a file. */
  public static final class BesideHive extends LocalDisk {
    @Override
    public boolean rename(Path source, Path target) throws IOException {
      return !pathToFile(target).isFile() && super.rename(source, target);
    }
  }
}
