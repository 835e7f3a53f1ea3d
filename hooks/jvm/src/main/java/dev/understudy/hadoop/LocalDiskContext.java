package dev.understudy.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.local.LocalConfigKeys;

/**
 * For {@code fs.AbstractFileSystem.file.impl}: the same for {@code FileContext}, through which
 * Delta Lake writes its log.
 */
public final class LocalDiskContext extends ChecksumFs {
  public LocalDiskContext(URI uri, Configuration settings) throws IOException, URISyntaxException {
    super(new Raw(uri, settings));
  }

  private static final class Raw extends DelegateToFileSystem {
    Raw(URI uri, Configuration settings) throws IOException, URISyntaxException {
      super(uri, new RawLocalDisk(), settings, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public boolean isValidName(String name) {
      return true; // every name that the disk takes
    }
  }
}
