package dev.understudy.rehearsal;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * {@code rehearse:/r/<id>/checkpoint/…}: reads fall through to the real checkpoint, writes, renames
 * and deletes go to scratch.
 *
 * <p>One instance serves all rehearsals of a JVM (Hadoop caches file systems by scheme); which
 * overlay is meant stands in the path. It is known only to sessions whose configuration names it
 * under {@code fs.rehearse.impl}, which is never the user's.
 */
public final class OverlayFileSystem extends FileSystem {
  private static final URI ROOT = URI.create(Overlay.SCHEME + ":///");

  private record Place(Overlay overlay, String relative) {
    Path upper() {
      return overlay.upper(relative);
    }

    Path lower() {
      return overlay.lower(relative);
    }
  }

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setConf(conf);
  }

  @Override
  public String getScheme() {
    return Overlay.SCHEME;
  }

  @Override
  public URI getUri() {
    return ROOT;
  }

  private Place place(Path path) throws IOException {
    String[] parts = path.toUri().getPath().split("/", 5); // "", "r", id, "checkpoint", rest
    if (parts.length < 4 || !parts[1].equals("r") || !parts[3].equals("checkpoint")) {
      throw new FileNotFoundException(path + " is outside of any rehearsal");
    }
    return new Place(Overlay.of(parts[2], getConf()), parts.length < 5 ? "" : parts[4]);
  }

  /**
   * Whether it is a real file: the metadata of {@code transformWithState} name their schema files
   * by whole paths, which are read through the file system of the checkpoint. Such a file is read
   * where it is, and never written.
   */
  private static boolean real(Path path) {
    String scheme = path.toUri().getScheme();
    return scheme != null && !scheme.equals(Overlay.SCHEME);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    if (real(path)) {
      return path.getFileSystem(getConf()).getFileStatus(path);
    }
    Place at = place(path);
    try {
      return renamed(at.overlay().upperFs().getFileStatus(at.upper()), path);
    } catch (FileNotFoundException inScratch) {
      Path lower = at.lower();
      if (lower == null) {
        throw new FileNotFoundException(path + " does not exist");
      }
      return renamed(at.overlay().lowerFs().getFileStatus(lower), path);
    }
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    Place at = place(path);
    FileStatus[] below = at.lower() == null ? null : list(at.overlay().lowerFs(), at.lower());
    FileStatus[] above = list(at.overlay().upperFs(), at.upper());
    if (below == null && above == null) {
      throw new FileNotFoundException(path + " does not exist");
    }
    Map<String, FileStatus> found = new TreeMap<>();
    for (FileStatus status : below == null ? new FileStatus[0] : below) {
      String name = status.getPath().getName();
      if (at.overlay().lower(at.relative().isEmpty() ? name : at.relative() + "/" + name) != null) {
        found.put(name, status);
      }
    }
    for (FileStatus status : above == null ? new FileStatus[0] : above) {
      found.put(status.getPath().getName(), status);
    }
    return found.values().stream()
        .map(status -> renamed(status, new Path(path, status.getPath().getName())))
        .toArray(FileStatus[]::new);
  }

  /**
   * What a directory holds, or null where there is none. Spark never lists a file of a checkpoint.
   */
  private static FileStatus[] list(FileSystem fs, Path directory) throws IOException {
    try {
      return fs.listStatus(directory);
    } catch (FileNotFoundException e) {
      return null;
    }
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    if (real(path)) {
      return path.getFileSystem(getConf()).open(path, bufferSize);
    }
    Place at = place(path);
    try {
      return at.overlay().upperFs().open(at.upper(), bufferSize);
    } catch (FileNotFoundException inScratch) {
      Path lower = at.lower();
      if (lower == null) {
        throw new FileNotFoundException(path + " does not exist");
      }
      return at.overlay().lowerFs().open(lower, bufferSize);
    }
  }

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    Place at = place(path);
    at.overlay().beforeCreate(at.relative());
    if (!overwrite && exists(path)) {
      throw new FileAlreadyExistsException(path + " exists");
    }
    return at.overlay()
        .upperFs()
        .create(at.upper(), true, bufferSize, replication, blockSize, progress);
  }

  @Override
  public FSDataOutputStream createNonRecursive(
      Path path,
      FsPermission permission,
      EnumSet<CreateFlag> flags,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    return create(
        path,
        permission,
        flags.contains(CreateFlag.OVERWRITE),
        bufferSize,
        replication,
        blockSize,
        progress);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress)
      throws IOException {
    throw new UnsupportedOperationException("a checkpoint is never appended to: " + path);
  }

  @Override
  public boolean rename(Path source, Path target) throws IOException {
    Place from = place(source);
    Place to = place(target);
    if (!exists(source)) {
      return false;
    }
    FileSystem scratch = from.overlay().upperFs();
    if (scratch.exists(from.upper())) {
      scratch.mkdirs(to.upper().getParent());
      if (scratch.exists(to.upper())) {
        scratch.delete(to.upper(), true);
      }
      if (!scratch.rename(from.upper(), to.upper())) {
        return false;
      }
    } else if (!FileUtil.copy(this, source, this, target, false, true, getConf())) {
      return false;
    }
    from.overlay().whiteOut(from.relative());
    to.overlay().afterRename(to.relative());
    return true;
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    Place at = place(path);
    if (!exists(path)) {
      return false;
    }
    at.overlay().whiteOut(at.relative());
    at.overlay().upperFs().delete(at.upper(), recursive);
    return true;
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    Place at = place(path);
    return at.overlay().upperFs().mkdirs(at.upper());
  }

  @Override
  public void setWorkingDirectory(Path path) {
    // every path is absolute
  }

  @Override
  public Path getWorkingDirectory() {
    return new Path(ROOT.toString());
  }

  /**
   * Without owner and permissions: on a local disk Hadoop starts a process ({@code ls}) for each
   * file to find them.
   */
  private static FileStatus renamed(FileStatus status, Path path) {
    return new FileStatus(
        status.getLen(),
        status.isDirectory(),
        status.getReplication(),
        status.getBlockSize(),
        status.getModificationTime(),
        path);
  }
}
