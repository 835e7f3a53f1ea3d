package dev.understudy.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;

/** A claim in an object store: one object, replaced by a PUT that is conditional on its ETag. */
final class ObjectClaims implements ClaimStore {
  private final Conditions conditions;
  private final FileSystem files;
  private final Path path;

  ObjectClaims(Conditions conditions, FileSystem files, Path root, String directory) {
    this.conditions = conditions;
    this.files = files;
    this.path = new Path(new Path(root, directory), "claim");
  }

  @Override
  public Standing read() throws IOException {
    FileStatus status;
    try {
      status = files.getFileStatus(path);
    } catch (FileNotFoundException e) {
      return Standing.NOTHING;
    }
    // The ETag and the bytes are two answers; the GET carries the ETag as its condition, which
    // makes them one (see
    // ObjectStoreClients, which asks S3A for that).
    FutureDataInputStreamBuilder builder = files.openFile(path).withFileStatus(status);
    try (InputStream in = FutureIO.awaitFuture(builder.build())) {
      return new Standing(etag(status), Claim.parse(in.readAllBytes()));
    } catch (FileNotFoundException e) {
      return read();
    } catch (IOException e) {
      if (ObjectStore.isConflict(e)) {
        return read();
      }
      throw e;
    }
  }

  /**
   * A first PUT costs half a second of class loading and connecting, which a takeover cannot wait
   * for.
   */
  @Override
  public Standing prepare() throws IOException {
    requireConditions();
    return read();
  }

  @Override
  public void requireConditions() throws IOException {
    conditions.require(files, path.getParent());
  }

  @Override
  public boolean replace(Standing seen, Claim claim) throws IOException {
    String option = seen.nothing() ? ObjectStore.CREATE_ONLY : ObjectStore.CREATE_IF_ETAG;
    String value = seen.nothing() ? "true" : seen.revision();
    return ObjectStore.put(files, path, option, value, claim.bytes());
  }

  @Override
  public boolean stands(Standing ours) throws IOException {
    try {
      return ours.revision().equals(etag(files.getFileStatus(path)));
    } catch (FileNotFoundException e) {
      return false;
    }
  }

  private static String etag(FileStatus status) throws IOException {
    if (status instanceof EtagSource source
        && source.getEtag() != null
        && !source.getEtag().isEmpty()) {
      return source.getEtag();
    }
    throw new IOException(status.getPath() + " has no ETag: no compare-and-set is possible there");
  }
}
