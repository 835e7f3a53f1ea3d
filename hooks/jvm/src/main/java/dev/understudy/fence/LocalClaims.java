package dev.understudy.fence;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.UUID;

/**
 * Claims on a local file system: files {@code claim@<n>}, the highest n is the claim, published by
 * link(2) of an fsynced temporary file. No lock is taken, so a process that is frozen or killed at
 * any step blocks no other.
 */
final class LocalClaims implements ClaimStore {
  private static final String PREFIX = "claim@";
  private static final int KEPT = 2;

  private final Path directory;

  LocalClaims(Path root) {
    this(root, Claim.DIRECTORY);
  }

  LocalClaims(Path root, String directory) {
    this.directory = root.resolve(directory);
  }

  @Override
  public Standing read() throws IOException {
    while (true) {
      long highest = highest();
      if (highest == 0) {
        return Standing.NOTHING;
      }
      try {
        return new Standing(Long.toString(highest), Claim.parse(Files.readAllBytes(file(highest))));
      } catch (NoSuchFileException e) {
        // removed since it was listed, so two higher ones stand: look again
      }
    }
  }

  @Override
  public boolean replace(Standing seen, Claim claim) throws IOException {
    Files.createDirectories(directory);
    long next = seen.nothing() ? 1 : Long.parseLong(seen.revision()) + 1;
    Path temporary = directory.resolve(".claim-" + UUID.randomUUID() + ".tmp");
    try {
      try (FileOutputStream out = new FileOutputStream(temporary.toFile())) {
        out.write(claim.bytes());
        out.getFD().sync();
      }
      Files.createLink(file(next), temporary);
    } catch (FileAlreadyExistsException e) {
      return false;
    } finally {
      Files.deleteIfExists(temporary);
    }
    if (highest() > next) {
      // the number had been passed and removed by others before: it never was the claim
      Files.deleteIfExists(file(next));
      return false;
    }
    syncDirectory();
    removeBelow(next - KEPT + 1);
    return true;
  }

  /**
   * Two look-ups instead of a listing. A successor is n+1, and files are removed in ascending
   * order, so whenever n+1 has come and gone, n went before it: asked in this order, "no n+1" and
   * then "n is there" leave no gap.
   */
  @Override
  public boolean stands(Standing ours) {
    long n = Long.parseLong(ours.revision());
    return !Files.exists(file(n + 1)) && Files.exists(file(n));
  }

  private Path file(long n) {
    return directory.resolve(PREFIX + n);
  }

  private long highest() throws IOException {
    long highest = 0;
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory, PREFIX + "*")) {
      for (Path entry : entries) {
        highest = Math.max(highest, number(entry));
      }
    } catch (NoSuchFileException | NotDirectoryException e) {
      return 0;
    }
    return highest;
  }

  private static long number(Path entry) {
    try {
      return Long.parseLong(entry.getFileName().toString().substring(PREFIX.length()));
    } catch (NumberFormatException e) {
      return 0;
    }
  }

  private void removeBelow(long keepFrom) throws IOException {
    long lowest = keepFrom;
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory, PREFIX + "*")) {
      for (Path entry : entries) {
        long n = number(entry);
        lowest = n > 0 ? Math.min(lowest, n) : lowest;
      }
    }
    for (long n = lowest; n < keepFrom; n++) { // ascending: stands() depends on it
      Files.deleteIfExists(file(n));
    }
  }

  private void syncDirectory() throws IOException {
    try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }
}
