package dev.understudy.savepoint;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The files of a copy, as a text that stands beside it: a line each, {@code SHA-256 length name},
 * in the order of names. Python reads it, too ({@code understudy.ha.saved_files}).
 */
record FileList(List<Entry> entries) {
  static final String SUFFIX = ".files";

  /** Instead of a digest: no byte of the file has been read yet. */
  static final String UNREAD = "-";

  private static final int BUFFER = 1 << 16;

  FileList(List<Entry> entries) {
    this.entries = entries.stream().sorted(Comparator.comparing(Entry::name)).toList();
  }

  /**
   * A file.
   *
   * @param name relative to the directory that the list is of
   */
  record Entry(String sha256, long length, String name) {
    boolean unread() {
      return sha256.equals(UNREAD);
    }

    /** Whether {@code found}, which was read, is what this entry lists. */
    boolean is(Entry found) {
      return length == found.length && (unread() || sha256.equals(found.sha256));
    }

    static Entry copy(FileSystem source, Path from, FileSystem goal, Path to, String name)
        throws IOException {
      try (InputStream in = source.open(new Path(from, "./" + name));
          OutputStream out = goal.create(new Path(to, "./" + name), false)) {
        return stream(in, out, name);
      }
    }

    static Entry read(FileSystem files, Path directory, String name) throws IOException {
      try (InputStream in = files.open(new Path(directory, "./" + name))) {
        return stream(in, OutputStream.nullOutputStream(), name);
      }
    }

    private static Entry stream(InputStream in, OutputStream out, String name) throws IOException {
      MessageDigest digest = newDigest();
      byte[] buffer = new byte[BUFFER];
      long length = 0;
      for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
        digest.update(buffer, 0, read);
        out.write(buffer, 0, read);
        length += read;
      }
      return new Entry(HexFormat.of().formatHex(digest.digest()), length, name);
    }
  }

  long bytes() {
    return entries.stream().mapToLong(Entry::length).sum();
  }

  String digest() {
    return HexFormat.of().formatHex(newDigest().digest(encoded()));
  }

  long unread() {
    return entries.stream().filter(Entry::unread).count();
  }

  void write(FileSystem files, Path path, boolean overwrite) throws IOException {
    try (OutputStream out = files.create(path, overwrite)) {
      out.write(encoded());
    }
  }

  static FileList read(FileSystem files, Path path) throws IOException {
    List<Entry> found = new ArrayList<>();
    try (InputStream in = files.open(path)) {
      for (String line : new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList()) {
        String[] parts = line.split(" ", 3);
        found.add(new Entry(parts[0], Long.parseLong(parts[1]), parts[2]));
      }
    }
    return new FileList(found);
  }

  private byte[] encoded() {
    StringBuilder text = new StringBuilder();
    for (Entry entry : entries) {
      text.append(entry.sha256()).append(' ').append(entry.length()).append(' ');
      text.append(entry.name()).append('\n');
    }
    return text.toString().getBytes(StandardCharsets.UTF_8);
  }

  private static MessageDigest newDigest() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e); // every Java has it
    }
  }
}
