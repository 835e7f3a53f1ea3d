package dev.understudy.fence;

import java.io.IOException;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The deletion of what a batch overwrites: one file or directory after the other, each behind a
 * look of its own, because a successor may have written there since the last one.
 */
final class Overwrite {
  static final String OP = "deleteWithJob";

  /** Deletes a file, or a directory with all that is in it. */
  interface Deletion {
    boolean of(Path path) throws IOException;
  }

  private Overwrite() {}

  /** Deletes {@code path}, and of a claimed directory all but its claims. */
  static boolean delete(SinkTicket ticket, FileSystem files, Path path, Deletion deletion)
      throws IOException {
    boolean deleted = true;
    for (Path each : allButClaims(files, path)) {
      ticket.again(OP);
      deleted &= deletion.of(ticket.takenAway(files, each));
    }
    return deleted;
  }

  private static List<Path> allButClaims(FileSystem files, Path path) throws IOException {
    if (!files.exists(new Path(path, Claim.DIRECTORY))) {
      return List.of(path);
    }
    return Stream.of(files.listStatus(path))
        .map(FileStatus::getPath)
        .filter(child -> !child.getName().equals(Claim.DIRECTORY))
        .toList();
  }
}
