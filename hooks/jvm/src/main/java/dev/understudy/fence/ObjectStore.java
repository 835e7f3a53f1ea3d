package dev.understudy.fence;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Requests to file systems with a conditional PUT ({@code s3a://} of Hadoop 3.5). */
final class ObjectStore {
  static final String CREATE_ONLY = "fs.option.create.conditional.overwrite";
  static final String CREATE_IF_ETAG = "fs.option.create.conditional.overwrite.etag";

  private static final String NONCE = "understudy-nonce";

  private ObjectStore() {}

  static boolean isConditional(FileSystem files, Path path) throws IOException {
    return files.hasPathCapability(files.makeQualified(path), CREATE_ONLY);
  }

  /**
   * Opens a stream that puts one object when it is closed, if the condition holds then. Sends
   * nothing before.
   */
  static FSDataOutputStream create(
      FileSystem files, Path path, String option, String value, String nonce) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder =
        files.createFile(path).create().overwrite(true).recursive();
    if (option != null) {
      builder.must(option, value);
    }
    builder.opt("fs.s3a.create.performance", "true");
    builder.opt("fs.s3a.create.header." + NONCE, nonce);
    return builder.build();
  }

  /**
   * Puts one object.
   *
   * @return false if the condition refused it
   */
  static boolean put(FileSystem files, Path path, String option, String value, byte[] content)
      throws IOException {
    FSDataOutputStream out = create(files, path, option, value, UUID.randomUUID().toString());
    try {
      out.write(content);
      out.close();
      return true;
    } catch (IOException e) {
      out.abort();
      if (isConflict(e)) {
        return false;
      }
      throw e;
    }
  }

  /**
   * An object that stands.
   *
   * @param nonce of the write that made it; empty for another program's
   */
  record Standing(String nonce, String etag) {}

  /** Looks at an object: settles a lost answer. Raises FileNotFoundException if there is none. */
  static Standing standing(FileSystem files, Path path) throws IOException {
    Map<String, byte[]> found = Retries.reading(() -> files.getXAttrs(path));
    return new Standing(text(found, "header." + NONCE), text(found, "header.ETag"));
  }

  private static String text(Map<String, byte[]> attributes, String name) {
    byte[] found = attributes.get(name);
    return found == null ? "" : new String(found, StandardCharsets.UTF_8);
  }

  /** Whether a failed write was refused by its condition, and not lost on the way. */
  static boolean isConflict(IOException failure) {
    return failure instanceof FileAlreadyExistsException
        // hadoop-aws is not on every class path, so by name
        || failure.getClass().getSimpleName().equals("RemoteFileChangedException");
  }
}
