package dev.understudy.savepoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.HeadObjectResponse;

/**
 * Copies within one bucket of {@code s3a://} that the store makes by itself: no byte of them passes
 * through here, so their digests are not known yet.
 *
 * <p>Hadoop's interface has no copy. {@code rename} uses this one and deletes the source. The
 * requests are those of S3A's own factory, so encryption and storage class are as they would be.
 */
final class StoreCopy {
  /** More than that S3 copies in parts only. Spark's files are hardly ever as large. */
  private static final long LARGEST = 5L << 30;

  private static final Logger LOG = LoggerFactory.getLogger(StoreCopy.class);

  private final S3AFileSystem files;
  private final S3Client client;
  private volatile boolean refused;

  private StoreCopy(S3AFileSystem files) {
    this.files = files;
    this.client = files.getS3AInternals().getAmazonS3Client("savepoint");
  }

  /**
   * Null where files have to be streamed: the client encrypts, so the length that an object has in
   * the store is not the one that is read.
   *
   * @param bucket of S3A. Without hadoop-aws and the SDK on the class path this class must not even
   *     be verified, so the caller asks which one it is
   */
  static StoreCopy within(FileSystem bucket) {
    S3AFileSystem files = (S3AFileSystem) bucket;
    return files.isCSEEnabled() ? null : new StoreCopy(files);
  }

  /**
   * Has the store copy a file.
   *
   * @return an entry without a digest; null where the file has to be streamed: it is too large, or
   *     the store refuses
   * @throws FileNotFoundException if the file is gone
   */
  FileList.Entry copy(Path from, Path to, String name) throws IOException {
    if (refused) {
      return null;
    }
    Path source = new Path(from, "./" + name);
    String goal = files.pathToKey(new Path(to, "./" + name));
    try {
      HeadObjectResponse found = files.getS3AInternals().getObjectMetadata(source);
      if (found.contentLength() > LARGEST) {
        return null;
      }
      client.copyObject(
          files
              .getRequestFactory()
              .newCopyObjectRequestBuilder(files.pathToKey(source), goal, found)
              .build());
      return new FileList.Entry(FileList.UNREAD, found.contentLength(), name);
    } catch (SdkException e) {
      return streamed(S3AUtils.translateException("copy", source, e));
    } catch (IOException e) {
      return streamed(e);
    }
  }

  /** What a failure comes to; the stream that follows has its own, if it was not about the copy. */
  private FileList.Entry streamed(IOException failure) throws IOException {
    if (failure instanceof FileNotFoundException) {
      throw failure;
    }
    if (Thread.currentThread().isInterrupted()) {
      throw (InterruptedIOException)
          new InterruptedIOException("the time is over").initCause(failure);
    }
    LOG.warn("The store does not copy by itself; files of savepoints are streamed", failure);
    refused = true;
    return null;
  }
}
