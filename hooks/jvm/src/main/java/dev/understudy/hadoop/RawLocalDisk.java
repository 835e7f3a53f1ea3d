package dev.understudy.hadoop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.nativeio.NativeIO;

/**
 * Without Hadoop's native library its own class starts {@code chmod} for each file and directory
 * that it makes, and {@code readlink} for each that {@code FileContext} renames: some ten
 * milliseconds of a processor, several times for each task that writes.
 */
final class RawLocalDisk extends RawLocalFileSystem {
  private static final String MODE = "unix:mode";

  /** set-user-ID and set-group-ID: of a directory, {@code chmod} with four digits keeps them. */
  private static final int KEPT = 06000;

  @Override
  public void setPermission(org.apache.hadoop.fs.Path path, FsPermission permission)
      throws IOException {
    if (NativeIO.isAvailable()) {
      super.setPermission(path, permission);
      return;
    }
    Path file = pathToFile(path).toPath();
    int mode = permission.toShort();
    if (Files.isDirectory(file)) {
      mode |= (Integer) Files.getAttribute(file, MODE) & KEPT;
    }
    Files.setAttribute(file, MODE, mode);
  }

  @Override
  public FileStatus getFileLinkStatus(org.apache.hadoop.fs.Path path) throws IOException {
    // the name that Hadoop gives to readlink
    boolean link = Files.isSymbolicLink(Path.of(path.toString()));
    return link ? super.getFileLinkStatus(path) : getFileStatus(path);
  }
}
