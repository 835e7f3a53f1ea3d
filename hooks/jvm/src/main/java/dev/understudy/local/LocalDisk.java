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
   * Has Hadoop make its shared local file system again, if it is one of its own: spark-submit asks
   * for it before the configuration of the context is read. Who has it keeps it, and can use it.
   */
  public static void replaceShared() throws IOException {
    FileSystem shared = FileSystem.get(URI.create("file:///"), new Configuration(false));
    if (shared.getClass() == LocalFileSystem.class) {
      shared.close();
    }
  }
}
