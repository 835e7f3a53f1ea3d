package dev.understudy.fence;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/**
 * A page of memory that this JVM shares with the supervisor and the driver's Python: one small
 * file, mapped for the life of the process. All numbers in it are little-endian.
 */
final class SharedPage {
  static final int BYTES = 4096;

  static final VarHandle LONGS =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  private SharedPage() {}

  /** Raises an {@link IOException} if the file is too short for a page. */
  static MappedByteBuffer map(FileChannel channel, Path path, FileChannel.MapMode mode)
      throws IOException {
    if (channel.size() < BYTES) {
      // a mapping past the end of a file ends in SIGBUS, not in an exception
      throw new IOException(path + " is shorter than " + BYTES + " bytes");
    }
    MappedByteBuffer page = channel.map(mode, 0, BYTES);
    page.order(ByteOrder.LITTLE_ENDIAN);
    return page;
  }

  /** Whether a page begins with this magic number and this version. */
  static boolean begins(MappedByteBuffer page, int magic, int version) {
    return page.getInt(0) == magic && page.getInt(4) == version;
  }
}
