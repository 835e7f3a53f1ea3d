package dev.understudy.fence;

import java.io.IOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.UUID;
import org.apache.hadoop.fs.FileSystem;

/**
 * Where files lie until the driver publishes them, those of a streaming file sink and those of a
 * checkpoint, and what it has overwritten until that is deleted: {@code _understudy/staging-<JVM>}
 * below the claimed directory, on local disks. Readers pass over it, as its name begins with an
 * underscore.
 *
 * <p>A JVM that claims the directory deletes the directories of all other JVMs. A predecessor that
 * was let through before the claim and frozen before link(2) or rename(2) finds nothing to publish
 * when it thaws. What it writes there afterwards stays unpublished, and the next claim deletes it.
 */
final class Staging {
  private static final String PREFIX = "staging-";
  private static final String OURS = PREFIX + UUID.randomUUID();

  private Staging() {}

  static org.apache.hadoop.fs.Path below(org.apache.hadoop.fs.Path sink) {
    return new org.apache.hadoop.fs.Path(sink, Claim.DIRECTORY + "/" + OURS);
  }

  /** The same of {@code root}, a claimed directory on this disk. */
  static Path directory(String root) {
    return Path.of(root, Claim.DIRECTORY, OURS);
  }

  /** Moves what lies below {@code root}, by one system call, and returns where it is then. */
  static org.apache.hadoop.fs.Path take(
      String root, FileSystem files, org.apache.hadoop.fs.Path doomed) throws IOException {
    Path from = LocalFiles.local(files, doomed);
    if (!from.startsWith(root) || !Files.exists(from, LinkOption.NOFOLLOW_LINKS)) {
      return doomed;
    }
    Path to = directory(root).resolve("deleted-" + UUID.randomUUID());
    Files.createDirectories(to.getParent());
    Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
    return new org.apache.hadoop.fs.Path(doomed.toUri().getScheme(), null, to.toString());
  }

  static void deleteOthers(Path sink) throws IOException {
    try (DirectoryStream<Path> entries =
        Files.newDirectoryStream(sink.resolve(Claim.DIRECTORY), PREFIX + "*")) {
      for (Path entry : entries) {
        if (!entry.getFileName().toString().equals(OURS)) {
          delete(entry);
        }
      }
    } catch (NoSuchFileException | NotDirectoryException e) {
      return; // nothing has been written there
    }
  }

  /**
   * A file that appears meanwhile was opened after the claim: its writer is refused before it can
   * publish it.
   */
  private static void delete(Path directory) throws IOException {
    try {
      LocalFiles.delete(directory);
    } catch (DirectoryNotEmptyException e) {
      return;
    }
  }
}
