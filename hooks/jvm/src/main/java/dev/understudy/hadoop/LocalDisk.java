package dev.understudy.hadoop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/** For {@code fs.file.impl}: Hadoop's local file system, checksum files included. */
public class LocalDisk extends LocalFileSystem {
  private static final URI DISK = URI.create("file:///");

  public LocalDisk() {
    super(new RawLocalDisk());
  }

  /**
   * Becomes the local file system that Hadoop shares, in place of its own one: parts of Spark have
   * asked for that before the configuration of a context is read, or ask with another one. Who has
   * it keeps it, and can use it.
   *
   * @return the class to configure; empty where another file system than Hadoop's is configured
   */
  public static String share() throws IOException {
    Configuration settings = new Configuration();
    Class<? extends FileSystem> stock = FileSystem.getFileSystemClass(DISK.getScheme(), settings);
    Class<? extends LocalDisk> ours = inPlaceOf(stock);
    if (ours == null) {
      return "";
    }
    FileSystem shared = FileSystem.get(DISK, settings);
    if (shared.getClass() == stock) {
      shared.close();
      settings.setClass("fs.file.impl", ours, FileSystem.class);
      FileSystem.get(DISK, settings);
    }
    return ours.getName();
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
