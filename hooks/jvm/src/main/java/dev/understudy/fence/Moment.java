package dev.understudy.fence;

import java.io.IOException;
import java.io.RandomAccessFile;

/** One moment on two clocks, in nanoseconds: CLOCK_BOOTTIME and CLOCK_MONOTONIC. */
record Moment(long boottime, long monotonic) {
  /**
   * Kept open, because it is read many times a second. Not a channel: an interrupted thread would
   * close it for all others.
   */
  private static RandomAccessFile uptime;

  static Moment now() {
    return new Moment(boottimeNanos(), System.nanoTime());
  }

  /**
   * Reads CLOCK_BOOTTIME from {@code /proc/uptime}, which cuts it to hundredths of a second. Rounds
   * up, so that a gate closes up to 10 ms early and never late. Returns {@code Long.MAX_VALUE},
   * which is past every deadline, if the clock cannot be read.
   */
  private static long boottimeNanos() {
    byte[] bytes = new byte[64];
    int length;
    synchronized (Moment.class) {
      try {
        if (uptime == null) {
          uptime = new RandomAccessFile("/proc/uptime", "r");
        }
        uptime.seek(0); // the kernel makes the content again for every read from the start
        length = uptime.read(bytes);
      } catch (IOException e) {
        return Long.MAX_VALUE;
      }
    }
    return parseUptime(bytes, length);
  }

  static long parseUptime(byte[] bytes, int length) {
    long hundredths = 0;
    int decimals = -1;
    for (int i = 0; i < length && bytes[i] != ' '; i++) {
      if (bytes[i] == '.') {
        decimals = 0;
      } else if (bytes[i] >= '0' && bytes[i] <= '9') {
        hundredths = hundredths * 10 + (bytes[i] - '0');
        decimals += decimals >= 0 ? 1 : 0;
      } else {
        return Long.MAX_VALUE;
      }
    }
    return decimals == 2 ? (hundredths + 1) * 10_000_000L : Long.MAX_VALUE;
  }
}
