package dev.understudy.fence;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.CRC32;

/** The supervisor's end of a gate, for tests: the gate's page and the two pages next to it. */
final class GatePage {
  static final long NEVER = Long.MAX_VALUE;

  private final Path path;
  private long sequence;

  /** Creates a standby's pages. */
  GatePage(Path directory) throws IOException {
    path = directory.resolve("gate");
    Files.write(Path.of(path + ".activity"), new byte[SharedPage.BYTES]);
    byte[] counters = new byte[SharedPage.BYTES];
    littleEndian(counters).putInt(0, Counters.MAGIC).putInt(4, Counters.VERSION);
    Files.write(Counters.of(path), counters);
    write(Gate.State.STANDBY, 0);
  }

  static long token(long epoch, long attempt) {
    return epoch << 32 | attempt;
  }

  Path path() {
    return path;
  }

  Gate map() throws IOException {
    return Gate.map(path.toString());
  }

  GatePage write(Gate.State state, long token) throws IOException {
    return write(state, token, NEVER, NEVER);
  }

  /** With deadlines that are the same on both clocks. */
  GatePage write(Gate.State state, long token, long close, long park) throws IOException {
    sequence += 2;
    byte[] bytes = new byte[SharedPage.BYTES];
    ByteBuffer page = littleEndian(bytes);
    page.putInt(0, Gate.MAGIC).putInt(4, Gate.VERSION).putLong(8, sequence).putLong(16, token);
    page.putLong(24, close).putLong(32, close).putLong(40, NEVER).putLong(48, NEVER);
    page.putLong(56, park).putLong(64, park).putInt(72, state.code);
    CRC32 crc = new CRC32();
    crc.update(bytes, 0, 76);
    page.putInt(76, (int) crc.getValue());
    return put(bytes);
  }

  GatePage put(byte[] page) throws IOException {
    if (Files.exists(path) && page.length == SharedPage.BYTES) {
      try (var out = Files.newByteChannel(path, java.nio.file.StandardOpenOption.WRITE)) {
        out.write(ByteBuffer.wrap(page)); // in place: a mapped page must not be cut short
      }
    } else {
      Files.write(path, page);
    }
    return this;
  }

  private static ByteBuffer littleEndian(byte[] page) {
    return ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN);
  }
}
