package dev.understudy.fence;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.fs.FSInputStream;

/** A file's content, read before. */
final class InMemoryInputStream extends FSInputStream {
  private final byte[] content;
  private ByteArrayInputStream in;
  private long position;

  InMemoryInputStream(byte[] content) {
    this.content = content;
    this.in = new ByteArrayInputStream(content);
  }

  @Override
  public int read() {
    int read = in.read();
    position += read < 0 ? 0 : 1;
    return read;
  }

  @Override
  public int read(byte[] into, int offset, int length) {
    int read = in.read(into, offset, length);
    position += Math.max(0, read);
    return read;
  }

  @Override
  public int available() {
    return in.available();
  }

  @Override
  public void seek(long to) throws IOException {
    if (to < 0 || to > content.length) {
      throw new EOFException("cannot seek to " + to + " in " + content.length + " bytes");
    }
    in = new ByteArrayInputStream(content, (int) to, content.length - (int) to);
    position = to;
  }

  @Override
  public long getPos() {
    return position;
  }

  @Override
  public boolean seekToNewSource(long to) {
    return false;
  }
}
