package dev.understudy.fence;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * Local files through java.nio: Hadoop's own local file system starts processes ({@code ls}, {@code
 * chmod}) for what is one system call here.
 *
 * <p>Hadoop keeps a checksum of {@code x} in {@code .x.crc} and believes it when it is there. We
 * write none, and delete an old one before its file gets new content or is deleted: plain Spark
 * reads what we wrote, and we read what it wrote. Nothing is synced to disk, as stock Spark syncs
 * nothing.
 */
final class LocalFiles {
  private LocalFiles() {}

  static boolean isLocal(FileSystem files) {
    return files instanceof LocalFileSystem || files instanceof RawLocalFileSystem;
  }

  static java.nio.file.Path local(FileSystem files, Path path) {
    return java.nio.file.Path.of(files.makeQualified(path).toUri().getPath());
  }

  static OutputStream create(java.nio.file.Path file) throws IOException {
    // a stream, not a channel: an interrupted thread would close a channel for all others
    FileOutputStream out;
    try {
      out = new FileOutputStream(file.toFile());
    } catch (FileNotFoundException e) {
      Files.createDirectories(file.getParent());
      out = new FileOutputStream(file.toFile());
    }
    return new BufferedOutputStream(out);
  }

  /**
   * Gives a finished temporary file its name if the name is free; else raises what Spark expects.
   */
  static void publishNew(java.nio.file.Path temporary, java.nio.file.Path target)
      throws IOException {
    if (Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
      // only saves the checksum of a file that exists: link(2) decides
      throw new FileAlreadyExistsException(target + " exists already");
    }
    deleteChecksum(target);
    try {
      Files.createLink(target, temporary);
    } catch (java.nio.file.FileAlreadyExistsException e) {
      FileAlreadyExistsException conflict =
          new FileAlreadyExistsException(target + " exists already");
      conflict.initCause(e);
      throw conflict;
    }
    Files.deleteIfExists(temporary);
  }

  static void publishOver(java.nio.file.Path temporary, java.nio.file.Path target)
      throws IOException {
    deleteChecksum(target);
    Files.move(
        temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  private static void deleteChecksum(java.nio.file.Path target) throws IOException {
    Files.deleteIfExists(target.resolveSibling("." + target.getFileName() + ".crc"));
  }

  /** Deletes recursively; a missing file is no error. */
  static void delete(java.nio.file.Path path) throws IOException {
    deleteChecksum(path);
    try {
      Files.deleteIfExists(path);
    } catch (DirectoryNotEmptyException e) {
      Files.walkFileTree(
          path,
          new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(java.nio.file.Path file, BasicFileAttributes a)
                throws IOException {
              Files.deleteIfExists(file);
              return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(java.nio.file.Path file, IOException e)
                throws IOException {
              if (e instanceof NoSuchFileException) {
                return FileVisitResult.CONTINUE;
              }
              throw e;
            }

            @Override
            public FileVisitResult postVisitDirectory(java.nio.file.Path d, IOException e)
                throws IOException {
              Files.deleteIfExists(d);
              return FileVisitResult.CONTINUE;
            }
          });
    }
  }

  /**
   * What {@link LocalFileSystem} would list: no checksum files; FileNotFoundException when there is
   * no such path.
   */
  static FileStatus[] list(FileSystem files, Path path, PathFilter filter) throws IOException {
    Path qualified = files.makeQualified(path);
    java.nio.file.Path directory = local(files, path);
    List<FileStatus> found = new ArrayList<>();
    try (DirectoryStream<java.nio.file.Path> entries = Files.newDirectoryStream(directory)) {
      for (java.nio.file.Path entry : entries) {
        String name = entry.getFileName().toString();
        Path each = new Path(qualified, new Path(null, null, name));
        if ((name.startsWith(".") && name.endsWith(".crc")) || !filter.accept(each)) {
          continue;
        }
        try {
          found.add(status(each, Files.readAttributes(entry, BasicFileAttributes.class)));
        } catch (NoSuchFileException e) {
          // gone since it was listed
        }
      }
    } catch (NoSuchFileException e) {
      throw missing(path, e);
    } catch (NotDirectoryException e) {
      return filter.accept(qualified)
          ? new FileStatus[] {
            status(qualified, Files.readAttributes(directory, BasicFileAttributes.class))
          }
          : new FileStatus[0];
    }
    return found.toArray(new FileStatus[0]);
  }

  private static FileStatus status(Path path, BasicFileAttributes attributes) {
    long modified = attributes.lastModifiedTime().toMillis();
    return new FileStatus(
        attributes.size(), attributes.isDirectory(), 1, 32L << 20, modified, path);
  }

  private static FileNotFoundException missing(Path path, IOException cause) {
    FileNotFoundException missing = new FileNotFoundException("File " + path + " does not exist");
    missing.initCause(cause);
    return missing;
  }

  static void mkdirs(java.nio.file.Path directory) throws IOException {
    File file = directory.toFile();
    if (!file.isDirectory() && !file.mkdirs() && !file.isDirectory()) {
      throw new IOException("cannot create directory " + directory);
    }
  }
}
