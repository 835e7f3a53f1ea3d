package dev.understudy.local;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;

/** For {@code fs.file.impl}: Hadoop's local file system, checksum files included. */
public final class LocalDisk extends LocalFileSystem {
  public LocalDisk() {
    super(new RawLocalDisk());
  }

  /**
   * Becomes the local file system that Hadoop shares, in place of its own one: parts of Spark have
   * asked for that before the configuration of a context is read, or ask with another one. Who has
   * it keeps it, and can use it.
   */
  public static void share() throws IOException {
    URI disk = URI.create("file:///");
    Configuration settings = new Configuration();
    FileSystem shared = FileSystem.get(disk, settings);
    if (shared.getClass() == LocalFileSystem.class) {
      shared.close();
      settings.setClass("fs.file.impl", LocalDisk.class, FileSystem.class);
      FileSystem.get(disk, settings);
    }
  }
}
