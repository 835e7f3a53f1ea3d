package dev.understudy.fence;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * What is written until it is published, perhaps more than once: in memory, and beyond a limit in a
 * file without a name.
 */
final class Spool extends OutputStream {
  private static final int IN_MEMORY = 4 << 20;

  private final int limit;
  private ByteArrayOutputStream memory = new ByteArrayOutputStream(512);

  /** No channel: an interrupted thread would close it. */
  private RandomAccessFile file;

  Spool() {
    this(IN_MEMORY);
  }

  Spool(int limit) {
    this.limit = limit;
  }

  @Override
  public void write(int value) throws IOException {
    write(new byte[] {(byte) value}, 0, 1);
  }

  @Override
  public void write(byte[] bytes, int offset, int length) throws IOException {
    if (file == null && memory.size() + length > limit) {
      Path path = Files.createTempFile("understudy-", ".spool");
      file = new RandomAccessFile(path.toFile(), "rw");
      Files.delete(path); // what a killed process leaves is gone with it
      file.write(memory.toByteArray());
      memory = null;
    }
    if (file != null) {
      file.write(bytes, offset, length);
    } else {
      memory.write(bytes, offset, length);
    }
  }

  void copyTo(OutputStream out) throws IOException {
    if (file == null) {
      memory.writeTo(out);
      return;
    }
    file.seek(0);
    byte[] buffer = new byte[1 << 16];
    for (int read = file.read(buffer); read >= 0; read = file.read(buffer)) {
      out.write(buffer, 0, read);
    }
  }

  @Override
  public void close() throws IOException {
    memory = new ByteArrayOutputStream(0);
    if (file != null) {
      file.close();
      file = null;
    }
  }
}
